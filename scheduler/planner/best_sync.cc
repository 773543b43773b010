#include "scheduler/planner/best_sync.h"

#include <utility>

#include "base/status_macros.h"

namespace soapstone::planner {

absl::StatusOr<Strategy> WithBestSynchronization(const OpGraph& graph, const Machine& machine,
                                                 const CostModel& costs,
                                                 const SimulatorOptions& options,
                                                 Strategy strategy) {
  Simulator simulator(&graph, &machine, &costs, options);
  std::pair<int64_t, Nanos> least = {INT64_MAX, kNever};
  Synchronization best = Synchronization::kOwner;
  for (const Synchronization way :
       {Synchronization::kOwner, Synchronization::kRing, Synchronization::kServers}) {
    if (way == Synchronization::kServers && machine.servers().empty()) continue;
    strategy.synchronization = way;
    SOAP_RETURN_IF_ERROR(simulator.SetStrategy(strategy));
    const std::pair<int64_t, Nanos> its = {simulator.MemoryOverflow(), simulator.StepTime()};
    if (its < least) {
      least = its;
      best = way;
    }
  }
  strategy.synchronization = best;
  return strategy;
}

}  // namespace soapstone::planner
