#include "models/replica.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "compute/cpu_kernels.h"
#include "compute/loss.h"
#include "glog/logging.h"

namespace soapstone::models {
namespace {

// A run uses few batch sizes (a leaf is ⌊n/M⌋ or ⌈n/M⌉ samples, and so at an epoch's end).
constexpr size_t kPreparedMax = 16;

using KernelOr = absl::StatusOr<std::unique_ptr<compute::Kernel>>;

KernelOr MakeLinear(const Graph& graph, const Op& op, int64_t samples) {
  const std::vector<int64_t>& w = graph.param(op.params[0]).shape;  // [O, D]
  return compute::MakeCpuLinear({.samples = samples, .inputs = w[1], .outputs = w[0]});
}

KernelOr MakeConv2d(const Graph& graph, const Op& op, int64_t samples) {
  const std::vector<int64_t>& in = graph.tensor(op.inputs[0]).shape;  // [C, H, W]
  return compute::MakeCpuConv2d({.samples = samples,
                                 .in_channels = in[0],
                                 .height = in[1],
                                 .width = in[2],
                                 .out_channels = graph.param(op.params[0]).shape[0],
                                 .kernel = op.window.size,
                                 .stride = op.window.stride,
                                 .padding = op.window.padding});
}

KernelOr MakePool(const Graph& graph, const Op& op, int64_t samples) {
  const std::vector<int64_t>& in = graph.tensor(op.inputs[0]).shape;  // [C, H, W]
  return compute::MakeCpuPool(
      {.kind = op.kind == OpKind::kMaxPool ? compute::PoolKind::kMax : compute::PoolKind::kAverage,
       .samples = samples,
       .channels = in[0],
       .height = in[1],
       .width = in[2],
       .kernel = op.window.size,
       .stride = op.window.stride});
}

KernelOr MakeKernel(const Graph& graph, const Op& op, int64_t samples) {
  switch (op.kind) {
    case OpKind::kLinear:
      return MakeLinear(graph, op, samples);
    case OpKind::kConv2d:
      return MakeConv2d(graph, op, samples);
    case OpKind::kMaxPool:
    case OpKind::kAvgPool:
      return MakePool(graph, op, samples);
    case OpKind::kRelu:
      return compute::MakeCpuRelu(samples * graph.tensor(op.inputs[0]).elements());
    case OpKind::kFlatten:
    case OpKind::kSoftmaxCrossEntropy:
      return std::unique_ptr<compute::Kernel>();
  }
  return absl::InternalError("operator kind without a kernel");
}

}  // namespace

Replica::Replica(Graph graph) : graph_(std::move(graph)) {
  params_ = NewParameters();
  for (size_t t = 0; t < graph_.tensors().size(); ++t) storage_.push_back(t);
  for (const Op& op : graph_.ops()) {
    if (op.kind != OpKind::kFlatten) continue;
    storage_[static_cast<size_t>(op.output)] = storage_[static_cast<size_t>(op.inputs[0])];
  }
  activations_.resize(storage_.size());
  grads_.resize(storage_.size());
}

Replica::Parameters Replica::NewParameters() {
  Parameters params;
  params.reserve(graph_.params().size());
  for (const ParamSpec& spec : graph_.params()) {
    params.push_back(pool_.Take(spec.elements() * sizeof(float)));
    std::memset(params.back().data, 0, params.back().size);
  }
  return params;
}

void Replica::SwapParameters(Parameters* other) {
  CHECK_EQ(other->size(), params_.size());
  params_.swap(*other);
}

absl::StatusOr<std::unique_ptr<Replica>> Replica::Create(Graph graph) {
  std::unique_ptr<Replica> replica(new Replica(std::move(graph)));
  SOAP_RETURN_IF_ERROR(replica->Prepare(1).status());
  return replica;
}

absl::StatusOr<Replica::Prepared*> Replica::Prepare(int64_t samples) {
  ++steps_;
  auto it = prepared_.find(samples);
  if (it == prepared_.end()) {
    Prepared made;
    for (const Op& op : graph_.ops()) {
      SOAP_ASSIGN_OR_RETURN(std::unique_ptr<compute::Kernel> kernel,
                            MakeKernel(graph_, op, samples));
      made.kernels.push_back(std::move(kernel));
    }
    if (prepared_.size() >= kPreparedMax) {
      prepared_.erase(std::min_element(
          prepared_.begin(), prepared_.end(),
          [](const auto& a, const auto& b) { return a.second.last_step < b.second.last_step; }));
    }
    it = prepared_.emplace(samples, std::move(made)).first;
  }
  it->second.last_step = steps_;
  return &it->second;
}

void Replica::SizeActivations(int64_t samples) {
  samples_ = samples;
  if (samples <= samples_max_) return;
  samples_max_ = samples;
  for (size_t t = 0; t < storage_.size(); ++t) {
    const Tensor& tensor = graph_.tensors()[t];
    if (storage_[t] != t || tensor.type != DataType::kFloat32) continue;
    const size_t bytes = static_cast<size_t>(samples * tensor.elements()) * sizeof(float);
    activations_[t] = pool_.Take(bytes);
    grads_[t] = pool_.Take(bytes);
  }
}

// [samples, elements] f32
absl::Span<float> Replica::Activation(TensorId id) const {
  const size_t t = static_cast<size_t>(id);
  return activations_[storage_[t]].floats().first(samples_ * graph_.tensor(id).elements());
}

absl::Span<float> Replica::ActivationGrad(TensorId id) const {
  const size_t t = static_cast<size_t>(id);
  return grads_[storage_[t]].floats().first(samples_ * graph_.tensor(id).elements());
}

void Replica::Begin(absl::Span<const float> inputs, absl::Span<const int32_t> labels) {
  CHECK(!labels.empty());
  auto prepared = Prepare(static_cast<int64_t>(labels.size()));
  CHECK(prepared.ok()) << prepared.status();
  current_ = *prepared;
  SizeActivations(static_cast<int64_t>(labels.size()));
  const absl::Span<float> input = Activation(graph_.input());
  CHECK_EQ(inputs.size(), input.size());
  std::copy(inputs.begin(), inputs.end(), input.begin());
  labels_.assign(labels.begin(), labels.end());
  forward_done_ = 0;
  backward_left_ = 0;
}

void Replica::ForwardOp(size_t op_index) {
  CHECK_EQ(op_index, forward_done_) << "operators run forward in order";
  const Op& op = graph_.ops().at(op_index);
  const absl::Span<float> input = Activation(op.inputs[0]);
  if (op.kind == OpKind::kSoftmaxCrossEntropy) {
    const compute::LossSums sums =
        compute::SoftmaxCrossEntropy(input, labels_, ActivationGrad(op.inputs[0]));
    loss_sum_ = sums.loss;
    correct_ = sums.correct;
  } else if (op.kind != OpKind::kFlatten) {
    compute::ForwardArgs args = {.input = input, .output = Activation(op.output)};
    if (!op.params.empty()) {
      args.weight = param(op.params[0]);
      args.bias = param(op.params[1]);
    }
    current_->kernels[op_index]->Forward(args);
  }
  ++forward_done_;
  if (forward_done_ == graph_.ops().size()) backward_left_ = forward_done_;
}

void Replica::BackwardOp(size_t op_index, absl::Span<const absl::Span<float>> gradients) {
  CHECK_EQ(op_index + 1, backward_left_) << "operators run backward in reverse, after the loss";
  const Op& op = graph_.ops().at(op_index);
  CHECK_EQ(gradients.size(), op.params.size());
  --backward_left_;
  // The loss wrote its gradient in the forward run; flatten's is the same memory.
  if (op.kind == OpKind::kSoftmaxCrossEntropy || op.kind == OpKind::kFlatten) return;
  compute::BackwardArgs args = {.input = Activation(op.inputs[0]),
                                .output = Activation(op.output),
                                .output_grad = ActivationGrad(op.output)};
  // Nobody reads the gradient of the samples themselves.
  const bool first =
      storage_[static_cast<size_t>(op.inputs[0])] == storage_[static_cast<size_t>(graph_.input())];
  if (!first) args.input_grad = ActivationGrad(op.inputs[0]);
  if (!op.params.empty()) {
    args.weight = param(op.params[0]);
    args.weight_grad = gradients[0];
    args.bias_grad = gradients[1];
  }
  current_->kernels[op_index]->Backward(args);
}

double Replica::loss_sum() const {
  CHECK_EQ(forward_done_, graph_.ops().size());
  return loss_sum_;
}

int64_t Replica::correct() const {
  CHECK_EQ(forward_done_, graph_.ops().size());
  return correct_;
}

absl::Span<const float> Replica::logits() const {
  CHECK_EQ(forward_done_, graph_.ops().size());
  return Activation(graph_.logits());
}

}  // namespace soapstone::models
