// PlannedJob: what `soapstone simulate --machine` and `--costs` say of a job whose model a strategy
// splits: the machine whose links carry its messages, and what its parts take on the machine's
// devices. Knows no flags.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cluster/job.h"
#include "experiment/cosim/planned_times.h"
#include "strategy/machine.h"

namespace soapstone::apps {

struct PlannedJob {
  planner::Machine machine;
  experiment::PlannedTimes times;
};

// costs_path: a file of `soapstone profile --costs`; empty: the roofline. Errors, one line: a job
// without a strategy; a file that is not there or not one; those of experiment::PlanTimes.
absl::StatusOr<std::unique_ptr<const PlannedJob>> PlanJob(const Job& job,
                                                          const std::string& machine_path,
                                                          const std::string& costs_path);

}  // namespace soapstone::apps
