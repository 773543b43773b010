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
// Pisarchyk and Lee 2020, "Efficient memory management for deep neural net inference").
MemoryPlan PlanMemory(const StepGraph& step);

}  // namespace soapstone::models
