// PlannedTimes: what the planner says of a job whose model is split: how long each part computes,
// which virtual time then takes (sim/virtual/seat_costs.h), and how long a step takes in all. So
// the real protocol is run with the planner's own numbers, and what is left between the two is what
// the planner does not know of the protocol. Called by `soapstone simulate --machine` and by tests.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "cluster/training_job.h"
#include "scheduler/planner/cost/cost_model.h"
#include "sim/virtual/seat_costs.h"
#include "strategy/machine.h"
#include "wire/config/strategy.pb.h"

namespace soapstone::experiment {

struct PlannedTimes {
  sim::SeatCosts costs;
  // Of a full batch, of one team alone: a step; with several under way, an iteration among many.
  Nanos step_ns = 0;
};

// machine: worker k is its device k; a strategy with servers has all of them. strategy: of the
// job's team; `file` stands for its text in errors. Errors: InvalidArgument, one line: fewer
// devices than workers, other servers than the job's; those of StrategyForWorkers.
absl::StatusOr<PlannedTimes> PlanTimes(const cluster::TrainingJob& job,
                                       const wire::Strategy& strategy, const std::string& file,
                                       const planner::Machine& machine,
                                       const planner::CostModel& costs);

}  // namespace soapstone::experiment
