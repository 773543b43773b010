// The way to keep copies of parameters equal that suits a strategy best. Used by the searchers that
// choose splits alone.
#pragma once

#include "absl/status/statusor.h"
#include "scheduler/planner/cost_model.h"
#include "scheduler/planner/simulator.h"
#include "scheduler/planner/strategy.h"

namespace soapstone::planner {

// The strategy with the synchronization under which it overflows memory least, then steps fastest;
// of equals the first in the order of the enumeration. Errors: as of CheckStrategy.
absl::StatusOr<Strategy> WithBestSynchronization(const OpGraph& graph, const Machine& machine,
                                                 const CostModel& costs,
                                                 const SimulatorOptions& options,
                                                 Strategy strategy);

}  // namespace soapstone::planner
