// Equivalence classes of a graph's operators, edges and parameter groups: members of one class are
// equal but for their names, as repeated layers, chunks of time and micro-batches are. What follows
// from shapes and rules alone (splits, overlaps, blocks of tasks) is found once for each class.
// Used by the simulator.
#pragma once

#include <cstdint>
#include <vector>

#include "strategy/op_graph.h"

namespace soapstone::planner {

// Classes are numbered from 0 on in the order of their first members.
struct EquivalenceClasses {
  // By operator: one operator at one shape, split by one rule. A cost model gives them equal costs.
  std::vector<uint32_t> of_op;
  // By edge: of equivalent operators, between the same output and input, at one offset.
  std::vector<uint32_t> of_edge;
  // By group: equivalent operators in the same order, which share parameters in the same way.
  std::vector<uint32_t> of_group;
  uint32_t ops = 0, edges = 0, groups = 0;  // how many classes
};

EquivalenceClasses FindEquivalenceClasses(const OpGraph& graph);

}  // namespace soapstone::planner
