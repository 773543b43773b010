// What devices need to run a strategy, by the sections that they would run: the memory plans of the
// kernels of this machine's processor. Asked once a plan, not once a proposal: searches count what
// is kept (device_memory.h), which is less.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "strategy/op_graph.h"
#include "strategy/order.h"
#include "strategy/strategy.h"

namespace soapstone::apps {

struct ExecutedMemoryOptions {
  uint32_t devices = 1;
  uint32_t in_flight = 0;       // micro-batches under way at once; 0: all. Where there is no order:
  planner::Order order;         // empty: the canonical one
  double optimizer_floats = 0;  // state kept by element of a parameter: 1 momentum, 2 adam
  bool rings_by_ranges = false;  // each holder keeps the state of its range alone (pieces.h)
};

// Bytes by device, where seats run ahead once a clock under way: activations, their gradients, what
// kernels save and their scratch; the samples; parameters, with their gradients, the optimizer's
// state where devices keep it (not under kServers), and a copy for each clock that the seat runs
// ahead. Error: Unimplemented: some operator's part is no operator (units of an lstm).
absl::StatusOr<std::vector<int64_t>> ExecutedMemory(const planner::OpGraph& graph,
                                                    const planner::Strategy& strategy,
                                                    const ExecutedMemoryOptions& options);

}  // namespace soapstone::apps
