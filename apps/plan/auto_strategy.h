// `soapstone train --strategy=auto`: the launcher measures, plans, and settles the job by what it
// found, before it starts processes.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/cli/node_flags.h"
#include "apps/plan/measured_inputs.h"
#include "apps/plan/strategy_trial.h"
#include "base/ids.h"
#include "wire/config/job.pb.h"

namespace soapstone::apps {

// A StrategyFinder (apps/cli/launcher.h). Measures this machine as the workers share it, but with
// --machine, and what the model's operators take; plans for a team of the job's, within
// --plan_budget. What was measured is kept in `kept`, unless that is null. The strategy is written
// beside the model, else into the folder of logs. Says on standard error what it does, and in a
// line what came of it. Where no strategy is found that is predicted to be 1.05 times as fast as
// data parallelism, and half a millisecond, or real steps of the one that is found are not, the job
// is settled without one; with --machine none are tried. A job that goes on from a checkpoint, with
// as many workers, is settled by the strategy that wrote it, or without one where it had none.
// REQUIRES: this process has one thread.
absl::StatusOr<int> FindStrategy(const NodeFlags& flags, MeasuredInputs* kept,
                                 wire::JobConfig* config);

// What planning came to.
struct FoundStep {
  Nanos found_ns = 0;
  Nanos data_ns = 0;            // data parallelism, as without a strategy; 0: it does not fit
  TriedSteps tried;             // 0: they were not
  std::string synchronization;  // of what was found
  std::string none;             // why nothing was found; empty: something was
  std::string ToText() const;
  // Error: it is no such text.
  static absl::StatusOr<FoundStep> FromText(const std::string& text);
};

// Why a job that may run as data parallelism does not run by what was found; empty: it does.
std::string WhyNotTaken(const FoundStep& found, bool data_runs);

// What the file of a job's strategy is called: for the file of its model, else for the model.
std::string StrategyName(const wire::JobConfig& config);

}  // namespace soapstone::apps
