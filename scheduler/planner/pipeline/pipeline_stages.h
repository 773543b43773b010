// A model as a chain of layers, and stages of a pipeline over it. Searchers of pipelines
// (pipedream, gpipe) choose the stages; here they become a strategy, which the simulator prices.
// Values.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/planner/cost/cost_model.h"
#include "strategy/machine.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

// A link of the chain. Where a model branches, layers are in an order in which they can run, and
// boundary_bytes counts every tensor that is made up to here and read further on, once.
struct PipelineLayer {
  double compute_s = 0;       // forward and backward of a batch, on one device
  double weight_bytes = 0;    // of its parameters
  double boundary_bytes = 0;  // of activations that a cut behind the layer would have to send
  friend bool operator==(const PipelineLayer&, const PipelineLayer&) = default;
};

// Layers [begin, end), replicated over devices, which share out the samples.
struct PipelineStage {
  uint32_t begin = 0, end = 0;
  std::vector<uint32_t> devices;
  friend bool operator==(const PipelineStage&, const PipelineStage&) = default;
};

// Layer i is parameter group i: an operator of the model with its chunks of time and micro-batches.
// compute_s on the kind of device that is slowest at it.
std::vector<PipelineLayer> LayersOf(const OpGraph& graph, const Machine& machine,
                                    const CostModel& costs);

// Each operator split by samples over the devices of its layer's stage, over as many as it has
// samples at most; one that cannot be split by samples is on the first. The graph may be in
// micro-batches. REQUIRES: the stages are those of its layers, in order, all of them.
Strategy StrategyOfStages(const OpGraph& graph, absl::Span<const PipelineStage> stages,
                          uint32_t staleness);

}  // namespace soapstone::planner
