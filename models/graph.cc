#include "models/graph.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace soapstone::models {
namespace {

constexpr int64_t kElementsMax = int64_t{1} << 40;

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

int64_t Product(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

// Positions of a window along a side.
int64_t Positions(int64_t side, const Window& window) {
  return (side + 2 * window.padding - window.size) / window.stride + 1;
}

// FLOPs of one sample. Linear and convolution multiply each output with `taps` weights:
// forward 2·taps·outputs; backward twice that (∂L/∂X and ∂L/∂W).
void SetCosts(int64_t in, int64_t out, int64_t taps, Op* op) {
  constexpr int64_t kFloatBytes = 4;
  op->forward_bytes = (in + out) * kFloatBytes;
  switch (op->kind) {
    case OpKind::kLinear:
    case OpKind::kConv2d:
      op->forward_flops = 2 * taps * out;
      op->backward_flops = 2 * op->forward_flops;
      op->backward_bytes = 2 * (in + out) * kFloatBytes;  // read X, dY twice; write dX
      return;
    case OpKind::kMaxPool:
    case OpKind::kAvgPool:
      op->forward_flops = op->window.size * op->window.size * out;
      op->backward_flops = op->forward_flops;
      op->backward_bytes = (in + out) * kFloatBytes;
      return;
    case OpKind::kRelu:
      op->forward_flops = in;
      op->backward_flops = in;
      op->backward_bytes = 3 * in * kFloatBytes;
      return;
    case OpKind::kFlatten:
      op->forward_bytes = 0;
      return;
    case OpKind::kSoftmaxCrossEntropy:  // maximum, exp, sum; then divide and subtract
      op->forward_flops = 3 * in;
      op->backward_flops = 2 * in;
      op->backward_bytes = in * kFloatBytes;
      return;
  }
}

}  // namespace

int64_t Tensor::elements() const { return Product(shape); }

std::string_view NameOf(OpKind kind) {
  switch (kind) {
    case OpKind::kLinear:
      return "linear";
    case OpKind::kConv2d:
      return "conv2d";
    case OpKind::kMaxPool:
      return "max_pool";
    case OpKind::kAvgPool:
      return "avg_pool";
    case OpKind::kRelu:
      return "relu";
    case OpKind::kFlatten:
      return "flatten";
    case OpKind::kSoftmaxCrossEntropy:
      return "softmax_cross_entropy";
  }
  return "unknown";
}

uint64_t Graph::parameter_count() const {
  uint64_t n = 0;
  for (const ParamSpec& param : params_) n += param.elements();
  return n;
}

int64_t Graph::flops_per_sample() const {
  int64_t n = 0;
  for (const Op& op : ops_) n += op.forward_flops + op.backward_flops;
  return n;
}

GraphBuilder::GraphBuilder(std::string_view name, std::vector<int64_t> input_shape) {
  graph_.name_ = std::string(name);
  int64_t elements = 1;
  for (int64_t d : input_shape) {
    if (d <= 0 || d > kElementsMax / elements) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat(graph_.name_, ": input shape ", ShapeText(input_shape), " is impossible"));
      break;
    }
    elements *= d;
  }
  graph_.input_ = AddTensor("input", DataType::kFloat32, std::move(input_shape));
  graph_.labels_ = AddTensor("labels", DataType::kInt32, {});
}

TensorId GraphBuilder::Fail(const Op& op, std::string_view why) {
  if (status_.ok()) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat(graph_.name_, ": ", std::string(NameOf(op.kind)), " '", op.name, "' on ",
                     ShapeText(graph_.tensor(op.inputs[0]).shape), ": ", std::string(why)));
  }
  return op.inputs[0];
}

bool GraphBuilder::CheckName(const Op& op) {
  for (const Op& other : graph_.ops_) {
    if (other.name == op.name) Fail(op, "the name is taken");
  }
  return status_.ok();
}

bool GraphBuilder::CheckImage(const Op& op) {
  if (graph_.tensor(op.inputs[0]).shape.size() != 3) Fail(op, "it takes an image [C, H, W]");
  return status_.ok();
}

bool GraphBuilder::CheckWindow(const Op& op) {
  const Window& w = op.window;
  if (w.size < 1 || w.stride < 1 || w.padding < 0 || w.padding >= w.size) {
    Fail(op, absl::StrCat("window ", w.size, " stride ", w.stride, " padding ", w.padding,
                          " is impossible"));
    return false;
  }
  const std::vector<int64_t>& in = graph_.tensor(op.inputs[0]).shape;
  if (in[1] + 2 * w.padding < w.size || in[2] + 2 * w.padding < w.size) {
    Fail(op, absl::StrCat("a window of ", w.size, " does not fit"));
  }
  return status_.ok();
}

TensorId GraphBuilder::AddTensor(std::string_view name, DataType type, std::vector<int64_t> shape) {
  graph_.tensors_.push_back({std::string(name), type, std::move(shape)});
  readers_.push_back(0);
  return static_cast<TensorId>(graph_.tensors_.size() - 1);
}

TensorId GraphBuilder::AddOp(Op op, std::vector<int64_t> output_shape) {
  for (TensorId in : op.inputs) {
    if (++readers_[static_cast<size_t>(in)] > 1) {
      return Fail(op, "its input is read by another operator too; gradients are not summed");
    }
  }
  const int64_t in = graph_.tensor(op.inputs[0]).elements();
  const int64_t out = Product(output_shape);
  const int64_t taps =
      op.params.empty() ? 0 : Product(graph_.param(op.params[0]).shape) / output_shape[0];
  SetCosts(in, out, taps, &op);
  op.output = AddTensor(op.name, DataType::kFloat32, std::move(output_shape));
  graph_.ops_.push_back(std::move(op));
  return graph_.ops_.back().output;
}

void GraphBuilder::AddParams(Op* op, std::vector<int64_t> weight_shape) {
  const auto id = static_cast<uint32_t>(graph_.params_.size());
  op->params = {ParamId{id}, ParamId{id + 1}};
  const int64_t outputs = weight_shape[0];
  graph_.params_.push_back(
      {absl::StrCat(op->name, ".weight"), std::move(weight_shape), InitKind::kUniform, 0});
  graph_.params_.push_back({absl::StrCat(op->name, ".bias"), {outputs}, InitKind::kZero, 0});
}

TensorId GraphBuilder::Linear(std::string_view name, TensorId in, int64_t outputs) {
  Op op = {.kind = OpKind::kLinear, .name = std::string(name), .inputs = {in}};
  if (!CheckName(op)) return in;
  const std::vector<int64_t>& shape = graph_.tensor(in).shape;
  if (shape.size() != 1) return Fail(op, "it takes a vector [D]; flatten first");
  if (outputs < 1) return Fail(op, "it needs at least one output");
  AddParams(&op, {outputs, shape[0]});
  return AddOp(std::move(op), {outputs});
}

TensorId GraphBuilder::Conv2d(std::string_view name, TensorId in, int64_t channels, Window window) {
  Op op = {.kind = OpKind::kConv2d, .name = std::string(name), .inputs = {in}, .window = window};
  if (!CheckName(op) || !CheckImage(op) || !CheckWindow(op)) return in;
  if (channels < 1) return Fail(op, "it needs at least one channel");
  const std::vector<int64_t> shape = graph_.tensor(in).shape;
  AddParams(&op, {channels, shape[0], window.size, window.size});
  return AddOp(std::move(op), {channels, Positions(shape[1], window), Positions(shape[2], window)});
}

TensorId GraphBuilder::Pool(OpKind kind, std::string_view name, TensorId in, Window window) {
  Op op = {.kind = kind, .name = std::string(name), .inputs = {in}, .window = window};
  if (!CheckName(op) || !CheckImage(op) || !CheckWindow(op)) return in;
  if (window.padding != 0) return Fail(op, "pooling takes no padding");
  const std::vector<int64_t> shape = graph_.tensor(in).shape;
  return AddOp(std::move(op), {shape[0], Positions(shape[1], window), Positions(shape[2], window)});
}

TensorId GraphBuilder::MaxPool(std::string_view name, TensorId in, Window window) {
  return Pool(OpKind::kMaxPool, name, in, window);
}

TensorId GraphBuilder::AvgPool(std::string_view name, TensorId in, Window window) {
  return Pool(OpKind::kAvgPool, name, in, window);
}

TensorId GraphBuilder::Relu(std::string_view name, TensorId in) {
  Op op = {.kind = OpKind::kRelu, .name = std::string(name), .inputs = {in}};
  if (!CheckName(op)) return in;
  return AddOp(std::move(op), graph_.tensor(in).shape);
}

TensorId GraphBuilder::Flatten(std::string_view name, TensorId in) {
  Op op = {.kind = OpKind::kFlatten, .name = std::string(name), .inputs = {in}};
  if (!CheckName(op)) return in;
  return AddOp(std::move(op), {graph_.tensor(in).elements()});
}

TensorId GraphBuilder::SoftmaxCrossEntropy(std::string_view name, TensorId logits) {
  Op op = {.kind = OpKind::kSoftmaxCrossEntropy,
           .name = std::string(name),
           .inputs = {logits, graph_.labels_}};
  if (!CheckName(op)) return logits;
  const std::vector<int64_t>& shape = graph_.tensor(logits).shape;
  if (shape.size() != 1 || shape[0] < 2) {
    return Fail(op, "it takes a vector of at least two logits");
  }
  return AddOp(std::move(op), {});
}

void GraphBuilder::SetInitialScales() {
  for (const Op& op : graph_.ops_) {
    if (op.params.empty()) continue;
    bool relu_follows = false;
    for (const Op& next : graph_.ops_) {
      relu_follows |= next.kind == OpKind::kRelu && next.inputs[0] == op.output;
    }
    ParamSpec& weight = graph_.params_[Index(op.params[0])];
    const auto elements = static_cast<double>(weight.elements());
    const double fan_in = elements / static_cast<double>(weight.shape[0]);
    const double fan_out = elements / static_cast<double>(weight.shape[1]);
    weight.scale = std::sqrt(6.0 / (relu_follows ? fan_in : fan_in + fan_out));
  }
}

absl::StatusOr<Graph> GraphBuilder::Build() {
  SOAP_RETURN_IF_ERROR(status_);
  size_t losses = 0;
  for (const Op& op : graph_.ops_) losses += op.kind == OpKind::kSoftmaxCrossEntropy ? 1 : 0;
  if (losses != 1 || graph_.ops_.back().kind != OpKind::kSoftmaxCrossEntropy) {
    return absl::InvalidArgumentError(
        absl::StrCat(graph_.name_, ": a model ends in one softmax_cross_entropy"));
  }
  SetInitialScales();
  return std::move(graph_);
}

}  // namespace soapstone::models
