#include "scheduler/planner/simulator/priced_strategy.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "glog/logging.h"

namespace soapstone::planner {

PricedStrategy PriceStrategy(const std::string& name, const Strategy& strategy,
                             const PriceOptions& options, Simulator* simulator) {
  CHECK(simulator->SetStrategy(strategy).ok());
  PricedStrategy priced = {.name = name,
                           .strategy = strategy,
                           .breakdown = simulator->Explain(),
                           .parts = PartsOf(simulator),
                           .overflow_bytes = simulator->Overflow()};
  const int64_t moved = priced.breakdown.transfer_bytes + priced.breakdown.sync_bytes;
  priced.moved_over_bytes = std::max<int64_t>(0, moved - options.moved_bytes_max);
  if (strategy.staleness > 0) priced.iteration_ns = simulator->IterationTime();
  if (options.jitter == 0) return priced;
  std::vector<Nanos> times = simulator->SampleStepTimes({.sigma = options.jitter});
  std::sort(times.begin(), times.end());
  const auto count = static_cast<int64_t>(times.size());
  priced.jitter_mean_ns = std::accumulate(times.begin(), times.end(), Nanos{0}) / count;
  priced.jitter_p95_ns = times[static_cast<size_t>(count * 95 / 100)];
  return priced;
}

}  // namespace soapstone::planner
