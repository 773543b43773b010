// The operator graph: a model as a value. Operators with typed, shaped tensors, in an order in
// which they can run. The zoo builds graphs; a Replica runs one; layout and planning read its
// parameters, shapes and costs. Knows nothing of kernels, devices or the cluster.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/parameter.h"

namespace soapstone::models {

enum class TensorId : uint32_t {};

enum class DataType : uint8_t { kFloat32, kInt32 };

// A tensor of activations. The batch dimension N is symbolic and comes first; `shape` is what one
// sample has: [C, H, W], [D], or [] for one number.
struct Tensor {
  std::string name;
  DataType type = DataType::kFloat32;
  std::vector<int64_t> shape;

  int64_t elements() const;  // of one sample
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

enum class OpKind : uint8_t {
  kLinear,               // [D] → [O]; parameters: weight [O, D], bias [O]
  kConv2d,               // [C, H, W] → [O, H', W']; weight [O, C, K, K], bias [O]
  kMaxPool,              // [C, H, W] → [C, H', W']
  kAvgPool,              // [C, H, W] → [C, H', W']
  kRelu,                 // any shape, kept
  kFlatten,              // [C, H, W] → [C·H·W]; no work: the same memory
  kSoftmaxCrossEntropy,  // [V] and labels [] → loss []
};
std::string_view NameOf(OpKind kind);

// The sliding window of convolution and pooling: square, the same in both directions.
struct Window {
  int64_t size = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  friend bool operator==(const Window&, const Window&) = default;
};

struct Op {
  OpKind kind = OpKind::kRelu;
  std::string name;
  std::vector<TensorId> inputs;  // softmax_cross_entropy: logits, labels; all others: one
  TensorId output = {};
  std::vector<ParamId> params;  // weight, bias; empty for operators without
  Window window;                // conv2d and pools

  // Of one sample. FLOPs count a multiply and an add as two; bytes are those of the activations
  // read and written once each (parameters are shared by the samples and not counted).
  int64_t forward_flops = 0;
  int64_t backward_flops = 0;
  int64_t forward_bytes = 0;
  int64_t backward_bytes = 0;

  friend bool operator==(const Op&, const Op&) = default;
};

// Invariants (GraphBuilder::Build sees to them):
//  1. An operator's inputs are graph inputs or outputs of operators before it.
//  2. Each tensor is read by at most one operator.
//  3. The last operator is softmax_cross_entropy, and the only one.
//  4. Parameters are numbered in the order of the operators, weight before bias.
class Graph {
 public:
  const std::string& name() const { return name_; }
  const std::vector<Op>& ops() const { return ops_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor& tensor(TensorId id) const { return tensors_[static_cast<size_t>(id)]; }
  const std::vector<ParamSpec>& params() const { return params_; }
  const ParamSpec& param(ParamId id) const { return params_[Index(id)]; }

  TensorId input() const { return input_; }    // the samples
  TensorId labels() const { return labels_; }  // int32, one each
  TensorId logits() const { return ops_.back().inputs[0]; }
  int64_t classes() const { return tensor(logits()).shape[0]; }

  uint64_t parameter_count() const;  // elements of all parameters
  int64_t flops_per_sample() const;  // forward and backward

  friend bool operator==(const Graph&, const Graph&) = default;

 private:
  friend class GraphBuilder;
  std::string name_;
  std::vector<Tensor> tensors_;
  std::vector<Op> ops_;
  std::vector<ParamSpec> params_;
  TensorId input_ = {};
  TensorId labels_ = {};
};

// Builds a graph operator by operator. The first error (a shape that does not fit, a name given
// twice) is kept, later calls do nothing, and Build returns it.
class GraphBuilder {
 public:
  // A model of this name over samples of this shape. Its input is tensor input().
  GraphBuilder(std::string_view name, std::vector<int64_t> input_shape);
  TensorId input() const { return graph_.input_; }

  // Each adds an operator that reads `in`, and returns its output. Parameters are named
  // name.weight and name.bias.
  TensorId Linear(std::string_view name, TensorId in, int64_t outputs);
  TensorId Conv2d(std::string_view name, TensorId in, int64_t channels, Window window);
  TensorId MaxPool(std::string_view name, TensorId in, Window window);
  TensorId AvgPool(std::string_view name, TensorId in, Window window);
  TensorId Relu(std::string_view name, TensorId in);
  TensorId Flatten(std::string_view name, TensorId in);
  TensorId SoftmaxCrossEntropy(std::string_view name, TensorId logits);

  // The graph. Weights start uniform in ±√(6/fan_in) where a ReLU follows (He et al. 2015,
  // eq. 10), else in ±√(6/(fan_in + fan_out)) (Glorot and Bengio 2010, eq. 16); biases at zero.
  absl::StatusOr<Graph> Build();

 private:
  // Keeps the first error. Returns the operator's input, for the caller to return.
  TensorId Fail(const Op& op, std::string_view why);
  // Each returns whether all is well so far.
  bool CheckName(const Op& op);
  bool CheckImage(const Op& op);
  bool CheckWindow(const Op& op);
  TensorId AddTensor(std::string_view name, DataType type, std::vector<int64_t> shape);
  TensorId AddOp(Op op, std::vector<int64_t> output_shape);
  TensorId Pool(OpKind kind, std::string_view name, TensorId in, Window window);
  void AddParams(Op* op, std::vector<int64_t> weight_shape);
  void SetInitialScales();

  Graph graph_;
  std::vector<int> readers_;  // by tensor: operators that read it
  absl::Status status_;
};

}  // namespace soapstone::models
