// Where the values of a step graph lie in one block of memory, so that those which are never alive
// together share it. A value; made before a run, so that a run which will not fit says so before.
#pragma once

#include <cstddef>
#include <vector>

#include "models/graph/step_graph.h"

namespace soapstone::models {

struct MemoryPlan {
  std::vector<size_t> offsets;  // by value, in bytes, divisible by 64
  size_t bytes = 0;             // of the block: the peak
  size_t live_bytes_max = 0;    // the largest sum of values alive at one node: no plan is below it
};

// Largest first, each at the lowest place that is free for as long as it lives (greedy by size;
// Pisarchyk and Lee 2020, "Efficient memory management for deep neural net inference"). With n
// values and t nodes it takes some n·log t steps where few gaps are left, as in steps of layers
// that are alike.
MemoryPlan PlanMemory(const StepGraph& step);
// The same for values of any list of so many nodes.
MemoryPlan PlanMemory(const std::vector<Value>& values, size_t nodes);

// MemoryPlan::live_bytes_max without the plan, which takes much longer.
size_t LiveBytesMax(const StepGraph& step);

}  // namespace soapstone::models
