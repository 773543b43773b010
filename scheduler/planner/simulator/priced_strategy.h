// A strategy with all that the simulator predicts of it, as plans are compared and reported.
#pragma once

#include <cstdint>
#include <string>

#include "base/ids.h"
#include "scheduler/planner/simulator/simulator.h"
#include "scheduler/planner/simulator/step_parts.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

struct PricedStrategy {
  std::string name;  // "found", "data parallel", ..
  Strategy strategy;
  Breakdown breakdown;
  StepParts parts;
  int64_t overflow_bytes = 0;    // over the devices' memory and what may be moved: it cannot run
  int64_t moved_over_bytes = 0;  // of them those that are moved
  Nanos iteration_ns = 0;        // under the strategy's staleness; 0: none
  Nanos jitter_mean_ns = 0, jitter_p95_ns = 0;  // of steps with jitter; 0: not asked for
};

struct PriceOptions {
  int64_t moved_bytes_max = INT64_MAX;  // of the simulator's options
  double jitter = 0;                    // sigma of parts' times (simulator.h); 0: none
};

// Sets the simulator's strategy. REQUIRES: the strategy is one for the simulator's graph and
// machine.
PricedStrategy PriceStrategy(const std::string& name, const Strategy& strategy,
                             const PriceOptions& options, Simulator* simulator);

}  // namespace soapstone::planner
