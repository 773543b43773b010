// The operator graph: a model as a value. Operators with typed, shaped tensors, in an order in
// which they can run. The zoo builds graphs, or they are read from ONNX; a GraphRunner runs one;
// layout and planning read its parameters, shapes, costs and partition rules (models/ops). Knows
// nothing of kernels, devices or the cluster.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/parameter.h"
#include "compute/op.h"
#include "models/ops/op_rules.h"

namespace soapstone::models {

enum class TensorId : uint32_t {};
inline size_t Index(TensorId id) { return static_cast<size_t>(id); }

using compute::DataType;

// A tensor of activations. The batch dimension N is symbolic and comes first; `shape` is what one
// sample has: [C, H, W], [T, D], [D], or [] for one number.
struct Tensor {
  std::string name;
  DataType type = DataType::kFloat32;
  std::vector<int64_t> shape;

  int64_t elements() const;  // of one sample
  compute::TensorSpec spec(int64_t samples) const;
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

struct Op {
  compute::Operator what;
  std::string name;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  std::vector<ParamId> params;
  OpCost cost;  // of one sample; its bytes include the parameters once

  friend bool operator==(const Op&, const Op&) = default;
};

// Invariants (GraphBuilder::Build sees to them):
//  1. An operator's inputs are graph inputs or outputs of operators before it.
//  2. The last operator is softmax_cross_entropy, and the only one.
//  3. Parameters are numbered in the order of the operators; each belongs to one operator.
//  4. Some output of every operator is read, but for the loss's.
class Graph {
 public:
  const std::string& name() const { return name_; }
  const std::vector<Op>& ops() const { return ops_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor& tensor(TensorId id) const { return tensors_[Index(id)]; }
  const std::vector<ParamSpec>& params() const { return params_; }
  const ParamSpec& param(ParamId id) const { return params_[soapstone::Index(id)]; }

  // What a sample consists of, in the order in which a data set gives it; the labels come last.
  const std::vector<TensorId>& inputs() const { return inputs_; }
  TensorId input() const { return inputs_.front(); }
  TensorId labels() const { return inputs_.back(); }
  TensorId logits() const { return ops_.back().inputs[0]; }
  int64_t classes() const { return tensor(logits()).shape.back(); }

  uint64_t parameter_count() const;  // elements of all trained parameters
  int64_t flops_per_sample() const;  // forward and backward

  // What the rules of models/ops are asked with.
  OpShapes ShapesOf(const Op& op, int64_t samples) const;

  friend bool operator==(const Graph&, const Graph&) = default;

 private:
  friend class GraphBuilder;
  std::string name_;
  std::vector<Tensor> tensors_;
  std::vector<Op> ops_;
  std::vector<ParamSpec> params_;
  std::vector<TensorId> inputs_;
};

// Builds a graph operator by operator. The first error (a shape that does not fit, a name given
// twice) is kept, later calls do nothing, and Build returns it.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string_view name);

  // An input of this shape a sample. Inputs are given in the order of these calls, and the labels
  // after them.
  TensorId Input(std::string_view name, DataType type, std::vector<int64_t> shape);

  // Adds an operator. Its parameters are named name.weight and so on; its outputs name, name:1, ..
  // Returns the first output.
  TensorId Apply(std::string_view name, compute::Operator what, std::vector<TensorId> inputs);
  // The same, all outputs. After an error: `outputs` times some tensor.
  std::vector<TensorId> ApplyAll(std::string_view name, compute::Operator what,
                                 std::vector<TensorId> inputs, size_t outputs);
  // [..] → [D]
  TensorId Flatten(std::string_view name, TensorId in);
  // Softmax with cross-entropy against labels of the logits' shape without the last dimension.
  void Loss(std::string_view name, TensorId logits);

  // Shape of one sample of a tensor so far.
  const std::vector<int64_t>& shape(TensorId id) const { return graph_.tensor(id).shape; }
  DataType type(TensorId id) const { return graph_.tensor(id).type; }
  // The first error so far, for readers of files who know what it is about.
  const absl::Status& status() const { return status_; }

  // The graph. Where a ReLU follows a linear or a convolution its weights start uniform in
  // ±√(6/fan_in) (He et al. 2015, eq. 10), whatever its rules said.
  absl::StatusOr<Graph> Build();

 private:
  void Fail(const compute::Operator& what, std::string_view name, std::string_view why);
  TensorId AddTensor(std::string name, DataType type, std::vector<int64_t> shape);
  void SetInitialScales();
  absl::Status CheckEnd() const;

  Graph graph_;
  absl::flat_hash_set<std::string> names_;  // of operators
  absl::Status status_;
};

}  // namespace soapstone::models
