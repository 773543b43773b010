// What devices send one another in a step under configurations that give each device one part of an
// operator at most: bytes alone, by formulas. Used by searchers that minimize communication. Agrees
// with the simulator, byte for byte, where parameters are synchronized at an owner or by a ring.
#pragma once

#include <cstdint>
#include <vector>

#include "strategy/op_graph.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

// The regions of one tensor that an operator's parts write or read.
struct PartRegions {
  std::vector<uint32_t> devices;       // by part
  std::vector<models::Block> regions;  // by part: within the producer's tensor
};
PartRegions WrittenRegions(const OpGraph& graph, uint32_t edge, const OpConfig& producer);
PartRegions ReadRegions(const OpGraph& graph, uint32_t edge, const OpConfig& consumer);

// Of one edge, with P_g what device g's part of the producer writes of the tensor (all of it where
// that are partial sums) and N_h what device h's part of the consumer reads (with its halo):
//   4 · Σ_{g≠h} |N_h ∩ P_g|   forward, and the same backward where a gradient flows.
int64_t EdgeBytes(const PartRegions& written, const PartRegions& read, bool gradient);

// Of a parameter group's parameters: 2·(k − 1)·|piece| for every piece that k devices hold,
// gradients in and parameters back. A parameter that several groups share counts in the first of
// them. configs: of the group's operators, in the group's order.
int64_t SyncBytes(const OpGraph& graph, uint32_t group, const std::vector<OpConfig>& configs);

// What parts pass around while they compute, forward and backward: of an lstm in k parts by units
// every step's units to the k − 1 others, of batch norm in k parts two sums a channel by
// all-reduce.
int64_t ExchangeBytes(const PlanOp& op, const OpConfig& config);

}  // namespace soapstone::planner
