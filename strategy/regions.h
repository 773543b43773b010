// Which parts of two operators' splits meet at an edge, and where: what the lowering makes messages
// and copies of. The simulator prices the same regions by their sizes
// (scheduler/planner/blocks/op_split.h); a test holds the two together, byte by byte.
#pragma once

#include <cstdint>
#include <vector>

#include "models/ops/partition.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

struct Meeting {
  uint32_t producer = 0, consumer = 0;  // parts
  models::Block region;                 // of the producer's output; not empty
};

// By producer's part, then by consumer's.
std::vector<Meeting> MeetingsOf(const OpGraph& graph, const PlanEdge& edge, const OpConfig& from,
                                const OpConfig& to);

}  // namespace soapstone::planner
