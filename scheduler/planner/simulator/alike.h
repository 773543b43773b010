// Which operators, edges and weight groups of a graph are alike but for their names: repeated
// layers, chunks of time, micro-batches. What follows from shapes and rules alone (splits,
// overlaps, blocks of tasks) is found once for all that are alike. Used by the simulator.
#pragma once

#include <cstdint>
#include <vector>

#include "strategy/op_graph.h"

namespace soapstone::planner {

// Classes are numbered from 0 on in the order of their first members.
struct AlikeClasses {
  // By operator: one operator at one shape, split by one rule. A cost model answers alike for them.
  std::vector<uint32_t> of_op;
  // By edge: of alike operators, between the same output and input, at one offset.
  std::vector<uint32_t> of_edge;
  // By group: alike operators in the same order, which share parameters in the same way.
  std::vector<uint32_t> of_group;
  uint32_t ops = 0, edges = 0, groups = 0;  // how many classes
};

AlikeClasses FindAlike(const OpGraph& graph);

}  // namespace soapstone::planner
