// `soapstone plan`: how to spread a model's training step over a machine, and how long the step
// then takes, without either at hand.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "apps/plan/plan_flags.h"
#include "apps/plan/planning.h"
#include "base/ids.h"

namespace soapstone::apps {

// Returns the exit code.
int Plan(const PlanFlags& flags);

// What a plan was chosen for: steps as they are predicted.
struct PlannedStep {
  Nanos found_ns = 0;
  Nanos data_ns = 0;            // data parallelism without a strategy, where it fits; else 0
  std::string synchronization;  // of what was found: "owner", "ring", "servers"
};
// The search of `flags`, whose strategy goes to its output_path, for what `options` describe in
// place of flags that say the same. Data parallelism is also priced in one micro-batch; data_by:
// how workers without a strategy synchronize it, or whatever is best where the machine cannot say.
// Errors: as the command's.
absl::StatusOr<PlannedStep> PlanStep(const PlanFlags& flags, const PlanningOptions& options,
                                     planner::Synchronization data_by);

}  // namespace soapstone::apps
