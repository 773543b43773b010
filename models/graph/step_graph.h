// The step graph: all that one training step runs, in order: the forward pass, the backward pass
// derived from it, the sums of gradients where a tensor is read more than once, and what is
// computed again to save memory; with every value that passes between, its lifetime and whose
// memory it lies in. Made by a GraphRunner from a graph and its kernels' plans; a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "compute/kernel.h"
#include "models/graph/graph.h"

namespace soapstone::models {

using ValueId = uint32_t;
inline constexpr ValueId kNoValue = UINT32_MAX;
// Most operators have no more arguments than fit in place: a long model has ten thousand nodes.
using ValueIds = absl::InlinedVector<ValueId, 4>;

// Something in the planned memory: an activation, a gradient, what a kernel saves, its scratch.
struct Value {
  std::string
      name;  // as in the memory report: "conv1", "grad conv1", "saved conv1", "scratch conv1"
  size_t bytes = 0;
  uint32_t first = 0, last = 0;  // nodes that write and that last read it
  ValueId storage = 0;           // whose memory it is in; its own id mostly
};

enum class NodeKind : uint8_t { kForward, kSum, kBackward };

// kForward  reads inputs, writes outputs and `saved`
// kSum      reads output_grads, writes input_grads[0]: Σ of the gradients of one tensor
// kBackward reads output_grads, `saved` and some of inputs and outputs, writes input_grads
struct Node {
  NodeKind kind = NodeKind::kForward;
  uint32_t op = 0;
  bool again = false;    // kForward: for the second time, since its outputs were not kept
  bool no_work = false;  // outputs are inputs under other names
  ValueIds inputs, outputs, output_grads, input_grads;  // kNoValue: not there
  ValueId saved = kNoValue, scratch = kNoValue;
};

struct StepGraph {
  std::vector<Node> nodes;
  std::vector<Value> values;
  std::vector<ValueId> inputs;  // by graph input: where a mini-batch is copied to
  // By graph input: its gradient, which stays to the end of the step; kNoValue: not asked for.
  std::vector<ValueId> input_grads;
  std::vector<ValueId> zeros;  // gradients of outputs that nobody reads: to be zero
  ValueId logits = kNoValue, loss = kNoValue, correct = kNoValue;
  // Operator k's backward half is nodes [backward_begin[k], backward_end[k]); empty if it has none.
  std::vector<uint32_t> backward_begin, backward_end;
};

struct StepOptions {
  bool training = true;
  // Ascending starts of segments of operators, but for 0: of all segments but the last only what
  // later segments read is kept, the rest is computed again before the segment's backward pass
  // (Chen et al. 2016, "Training deep nets with sublinear memory cost"). Empty: keep all.
  std::vector<uint32_t> segments;
  // The loss is kept to the end of the step: a device's is copied while the backward pass runs.
  bool keep_loss = false;
  std::vector<TensorId> input_gradients;  // inputs of the graph whose gradients are wanted
  bool named = true;  // values have their names; without, it is made in less time
};

// By tensor: whether its gradient is wanted: some parameter lies before it, or such an input.
std::vector<bool> GradientsWanted(const Graph& graph, const std::vector<TensorId>& inputs);

// What a kernel of this operator is to be asked for.
std::vector<bool> InputGradientsWanted(const Graph& graph, const std::vector<bool>& wanted,
                                       const Op& op);

// plans: by operator. `samples` of the plans' shapes.
StepGraph BuildStepGraph(const Graph& graph, int64_t samples,
                         const std::vector<const compute::KernelPlan*>& plans,
                         const StepOptions& options);

// Operators before which just one tensor of activations is alive: where segments may begin.
std::vector<uint32_t> CutPoints(const Graph& graph);

}  // namespace soapstone::models
