// The memory of a training step, by what it is for: what `soapstone models` and `soapstone profile`
// say beforehand. A value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "models/graph/graph.h"
#include "models/runtime/graph_runner.h"

namespace soapstone::apps {

struct StepMemory {
  uint64_t parameter_bytes = 0;
  uint64_t gradient_bytes = 0;    // of all parameters
  uint64_t batch_bytes = 0;       // the samples, as the data hand them out
  uint64_t activation_bytes = 0;  // the planned block: activations, their gradients, scratch
  uint64_t optimizer_bytes = 0;   // its state, where it is asked for
  uint64_t total() const {
    return parameter_bytes + gradient_bytes + batch_bytes + activation_bytes + optimizer_bytes;
  }
};
StepMemory StepMemoryOf(const models::Graph& graph, int64_t samples,
                        const models::MemoryPlan& plan);

// What is alive at the moment when most is, largest first, at most `count`.
struct LiveValue {
  std::string name;  // of the first value in that memory
  uint64_t bytes = 0;
};
struct LivePeak {
  std::string at;  // the operator that runs: "conv2 backward"
  uint64_t bytes = 0;
  std::vector<LiveValue> largest;
};
LivePeak LivePeakOf(const models::Graph& graph, const models::StepGraph& step, size_t count);

// Error: `needed` bytes are more than can be had; says how much is missing, and what to do.
absl::Status CheckFits(const std::string& what, uint64_t needed, uint64_t available);

}  // namespace soapstone::apps
