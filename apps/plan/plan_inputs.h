// What a plan is about, from the flags, a job file and strategy files: a flag comes before the job,
// and the job before what a strategy was made for.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "apps/plan/plan_flags.h"
#include "apps/plan/planning.h"
#include "wire/config/strategy.pb.h"

namespace soapstone::apps {

// Of --config the model at the size of the job's data, its batch and as many devices as workers.
// Errors: those of PrepareJob (cluster/job.h); a model of tables alone.
absl::StatusOr<PlanningOptions> OptionsOf(const PlanFlags& flags);

// That what is written overwrites neither each other nor what is read; a strategy that is priced
// may be written where it was. Errors: InvalidArgument with the flag; the job file cannot be read.
absl::Status CheckFilesApart(const PlanFlags& flags);

struct StrategyFile {
  std::string path;
  wire::Strategy message;
};
// Errors: the file and why.
absl::StatusOr<StrategyFile> ReadStrategyFile(const std::string& path);

// Model, devices, batch, chunk of time and micro-batches as the strategy has them, where `options`
// leave them open.
void FillFrom(const wire::Strategy& strategy, PlanningOptions* options);

// It was found by other costs than those that price it here.
bool HasOtherCosts(const StrategyFile& file, const Planning& planning);

}  // namespace soapstone::apps
