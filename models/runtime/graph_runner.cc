#include "models/runtime/graph_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compute/cpu/backend.h"
#include "glog/logging.h"
#include "models/graph/segments.h"

namespace soapstone::models {
namespace {

// A run uses few batch sizes (a micro-batch is ⌊n/M⌋ or ⌈n/M⌉ samples, and so at an epoch's end).
constexpr size_t kPreparedMax = 16;

ReplicaOptions WithBackend(ReplicaOptions options) {
  if (options.backend == nullptr) {
    options.backend = compute::MakeCpuBackend({.threads = options.threads});
  }
  return options;
}

std::vector<const compute::KernelPlan*> PlansOf(
    const std::vector<std::unique_ptr<compute::Kernel>>& kernels) {
  std::vector<const compute::KernelPlan*> plans;
  for (const auto& kernel : kernels) plans.push_back(&kernel->plan());
  return plans;
}

}  // namespace

GraphRunner::GraphRunner(Graph graph, ReplicaOptions options)
    : graph_(std::move(graph)),
      options_(WithBackend(std::move(options))),
      wanted_(GradientsWanted(graph_, options_.input_gradients)),
      pool_(NewPool()),
      records_(options_.record) {}

// What is still copied is to find its memory.
GraphRunner::~GraphRunner() {
  if (device_ != nullptr) options_.backend->Finish();
}

BufferPool GraphRunner::NewPool(size_t kept_bytes_max) const {
  if (!options_.backend->is_device()) return BufferPool(kept_bytes_max);
  return BufferPool(kept_bytes_max, [backend = options_.backend.get()](size_t bytes) {
    const absl::StatusOr<std::shared_ptr<void>> block = backend->AllocatePinned(bytes);
    LOG_IF(WARNING, !block.ok()) << "copies to and from the device will be slow: "
                                 << block.status().message();
    return block.ok() ? *block : nullptr;
  });
}

absl::Span<float> GraphRunner::param(ParamId id) {
  if (device_ != nullptr) device_->WaitForParam(id);
  return params_[soapstone::Index(id)].floats();
}

void GraphRunner::CutStep(std::vector<uint32_t> begins) {
  if (device_ == nullptr) return;
  device_->Cut(std::move(begins));
  for (auto& [key, prepared] : prepared_) prepared.recorded = {};
}

GraphRunner::Parameters GraphRunner::NewParameters() {
  Parameters params;
  params.reserve(graph_.params().size());
  for (const ParamSpec& spec : graph_.params()) {
    params.push_back(pool_.Take(spec.elements() * sizeof(float)));
    std::memset(params.back().data, 0, params.back().size);
  }
  return params;
}

void GraphRunner::SwapParameters(Parameters* other) {
  CHECK_EQ(other->size(), params_.size());
  options_.backend->Finish();
  params_.swap(*other);
}

absl::StatusOr<std::unique_ptr<GraphRunner>> GraphRunner::Create(Graph graph,
                                                                 ReplicaOptions options) {
  std::unique_ptr<GraphRunner> replica(new GraphRunner(std::move(graph), std::move(options)));
  SOAP_RETURN_IF_ERROR(replica->Prepare(1, true).status());
  replica->params_ = replica->NewParameters();
  if (!replica->options_.backend->is_device()) return replica;
  SOAP_ASSIGN_OR_RETURN(replica->device_,
                        ReplicaDevice::Create(replica->options_.backend.get(), &replica->graph_));
  return replica;
}

absl::StatusOr<StepPlan> GraphRunner::PlanStep(Graph graph, ReplicaOptions options, int64_t samples,
                                               bool training) {
  GraphRunner replica(std::move(graph), std::move(options));
  SOAP_ASSIGN_OR_RETURN(Prepared * prepared, replica.Prepare(samples, training));
  return StepPlan{std::move(prepared->step), std::move(prepared->memory),
                  std::move(prepared->kernels)};
}

absl::Status GraphRunner::MakeKernels(int64_t samples, bool training, Prepared* made) {
  std::vector<compute::Format> formats(graph_.tensors().size());
  for (TensorId input : graph_.inputs()) {
    formats[Index(input)] = compute::PlainFormat(graph_.tensor(input).spec(samples));
  }
  for (size_t k = 0; k < graph_.ops().size(); ++k) {
    const Op& op = graph_.ops()[k];
    const OpShapes shapes = graph_.ShapesOf(op, samples);
    compute::KernelRequest request = {.op = op.what,
                                      .name = op.name,
                                      .outputs = shapes.outputs,
                                      .training = training,
                                      .seed = options_.seed,
                                      .op_index = static_cast<uint32_t>(k)};
    for (TensorId in : op.inputs) request.inputs.push_back(formats[Index(in)]);
    for (const ParamSpec& param : shapes.params) {
      request.params.push_back({.type = DataType::kFloat32, .shape = param.shape});
    }
    if (training) request.input_grads_wanted = InputGradientsWanted(graph_, wanted_, op);
    SOAP_ASSIGN_OR_RETURN(std::unique_ptr<compute::Kernel> kernel,
                          options_.backend->Prepare(request));
    for (size_t j = 0; j < op.outputs.size(); ++j) {
      formats[Index(op.outputs[j])] = kernel->plan().outputs[j];
    }
    made->kernels.push_back(std::move(kernel));
  }
  return absl::OkStatus();
}

// Gradients are summed by the operator that adds, in the format of their tensor.
absl::Status GraphRunner::MakeSums(Prepared* made) {
  made->sums.resize(made->step.nodes.size());
  for (size_t i = 0; i < made->step.nodes.size(); ++i) {
    const Node& node = made->step.nodes[i];
    if (node.kind != NodeKind::kSum) continue;
    const Op& op = graph_.ops()[node.op];
    // Which output of the operator this is the gradient of.
    const std::string name = made->step.values[node.input_grads[0]].name;
    size_t j = 0;
    while (absl::StrCat("grad ", graph_.tensor(op.outputs[j]).name) != name) ++j;
    const compute::Format& format = made->kernels[node.op]->plan().outputs[j];
    compute::KernelRequest request = {.op = compute::Add{},
                                      .name = name,
                                      .inputs = std::vector(node.output_grads.size(), format),
                                      .outputs = {format.spec},
                                      .training = false};
    SOAP_ASSIGN_OR_RETURN(made->sums[i], options_.backend->Prepare(request));
    CHECK_EQ(made->sums[i]->plan().outputs[0].bytes, format.bytes);
    CHECK_EQ(made->sums[i]->plan().forward_scratch_bytes, 0u) << "a sum of equal formats";
  }
  return absl::OkStatus();
}

absl::StatusOr<GraphRunner::Prepared*> GraphRunner::Prepare(int64_t samples, bool training) {
  ++steps_;
  const Key key = {samples, training};
  auto it = prepared_.find(key);
  if (it == prepared_.end()) {
    Prepared made;
    SOAP_RETURN_IF_ERROR(MakeKernels(samples, training, &made));
    StepOptions how = {.training = training,
                       .keep_loss = options_.backend->is_device(),
                       .input_gradients = options_.input_gradients};
    made.step = BuildStepGraph(graph_, samples, PlansOf(made.kernels), how);
    made.memory = PlanMemory(made.step);
    if (options_.recompute && training) {
      how.segments = SmallestSegments(graph_, samples, PlansOf(made.kernels),
                                      options_.input_gradients, made.memory.bytes);
      made.step = BuildStepGraph(graph_, samples, PlansOf(made.kernels), how);
      made.memory = PlanMemory(made.step);
    }
    SOAP_RETURN_IF_ERROR(MakeSums(&made));
    made.zeros.resize(made.step.values.size());
    for (ValueId zero : made.step.zeros) made.zeros[zero] = true;
    if (prepared_.size() >= kPreparedMax) {
      prepared_.erase(std::min_element(
          prepared_.begin(), prepared_.end(),
          [](const auto& a, const auto& b) { return a.second.last_step < b.second.last_step; }));
    }
    it = prepared_.emplace(key, std::move(made)).first;
  }
  it->second.last_step = steps_;
  return &it->second;
}

absl::StatusOr<MemoryPlan> GraphRunner::Plan(int64_t samples, bool training) {
  SOAP_ASSIGN_OR_RETURN(const Prepared* prepared, Prepare(samples, training));
  return prepared->memory;
}

absl::StatusOr<const StepGraph*> GraphRunner::Step(int64_t samples, bool training) {
  SOAP_ASSIGN_OR_RETURN(const Prepared* prepared, Prepare(samples, training));
  return &prepared->step;
}

void* GraphRunner::At(ValueId id) const {
  if (id == kNoValue) return nullptr;
  return static_cast<std::byte*>(memory_.get()) + current_->memory.offsets[id];
}

std::vector<const void*> GraphRunner::Read(absl::Span<const ValueId> ids) const {
  std::vector<const void*> at;
  at.reserve(ids.size());
  for (ValueId id : ids) at.push_back(At(id));
  return at;
}

std::vector<void*> GraphRunner::Write(absl::Span<const ValueId> ids) const {
  std::vector<void*> at;
  at.reserve(ids.size());
  for (ValueId id : ids) at.push_back(At(id));
  return at;
}

// Where the kernel finds the operator's parameters; a device is given their present values.
std::vector<const float*> GraphRunner::ParamsOf(const Op& op) {
  std::vector<const float*> at;
  at.reserve(op.params.size());
  for (ParamId id : op.params) {
    const size_t p = soapstone::Index(id);
    at.push_back(device_ == nullptr ? params_[p].floats().data() : device_->param(id));
  }
  return at;
}

absl::Status GraphRunner::Begin(int64_t samples, absl::Span<const void* const> fields,
                                StepKey key) {
  CHECK_GE(samples, 1);
  CHECK_EQ(fields.size(), graph_.inputs().size());
  SOAP_ASSIGN_OR_RETURN(current_, Prepare(samples, key.training));
  if (current_->memory.bytes > memory_bytes_) {
    memory_.reset();
    memory_bytes_ = 0;
    SOAP_ASSIGN_OR_RETURN(memory_, options_.backend->Allocate(current_->memory.bytes));
    memory_bytes_ = current_->memory.bytes;
  }
  samples_ = samples;
  key_ = key;
  forward_done_ = 0;
  backward_left_ = 0;
  if (device_ != nullptr) BeginOnDevice();
  options_.backend->Name("samples");
  for (size_t i = 0; i < fields.size(); ++i) {
    const compute::Format format =
        compute::PlainFormat(graph_.tensor(graph_.inputs()[i]).spec(samples));
    options_.backend->Import(fields[i], format, At(current_->step.inputs[i]));
  }
  options_.backend->Name("");
  return absl::OkStatus();
}

void GraphRunner::BeginOnDevice() {
  if (key_.training && loss_.size < static_cast<size_t>(samples_) * sizeof(float)) {
    device_->WaitForLoss();
    loss_ = pool_.Take(static_cast<size_t>(samples_) * sizeof(float));
  }
  const bool recorded = current_->recorded.memory == memory_.get();
  if (records_ && !recorded && current_->ran_in != nullptr) RecordOnDevice();
  current_->ran_in = memory_.get();
  device_->Begin();
}

void GraphRunner::RecordOnDevice() {
  const absl::Status recorded = device_->Record(
      key_.step, key_.first_sample, key_.training,
      [this](size_t op) { RunForward(current_->step.nodes[op]); },
      [this](size_t op) { RunBackwardOnDevice(op); }, &current_->recorded);
  records_ = recorded.ok();
  current_->recorded.memory = records_ ? memory_.get() : nullptr;
  LOG_IF(WARNING, !records_) << recorded.message() << "; operators are started one by one";
}

ReplicaDevice::StepRun GraphRunner::RunOnDevice() const {
  const bool recorded = !key_.single_calls && current_->recorded.memory == memory_.get();
  return {.step = key_.step,
          .first_sample = key_.first_sample,
          .recorded = recorded ? &current_->recorded : nullptr};
}

void GraphRunner::ForwardOnDevice(size_t op, bool at_once) {
  device_->Forward(op, RunOnDevice(), at_once,
                   [this](size_t k) { RunForward(current_->step.nodes[k]); });
}

void GraphRunner::RunBackwardOnDevice(size_t op) {
  std::vector<float*> gradients;
  for (ParamId id : graph_.ops()[op].params) gradients.push_back(device_->gradient(id));
  RunBackwardNodes(op, gradients);
}

void GraphRunner::Begin(absl::Span<const float> inputs, absl::Span<const int32_t> labels,
                        StepKey key) {
  const auto samples = static_cast<int64_t>(labels.size());
  CHECK_EQ(graph_.inputs().size(), 2u);
  CHECK_EQ(static_cast<int64_t>(inputs.size()), samples * graph_.tensor(graph_.input()).elements());
  const absl::Status begun = Begin(samples, {inputs.data(), labels.data()}, key);
  CHECK(begun.ok()) << begun;
}

void GraphRunner::RunForward(const Node& node) {
  if (node.no_work) return;
  const Op& op = graph_.ops()[node.op];
  const std::vector<const void*> inputs = Read(node.inputs);
  const std::vector<void*> outputs = Write(node.outputs);
  const std::vector<const float*> params = ParamsOf(op);
  current_->kernels[node.op]->Forward({.inputs = inputs,
                                       .params = params,
                                       .outputs = outputs,
                                       .saved = At(node.saved),
                                       .scratch = At(node.scratch),
                                       .step = key_.step,
                                       .first_sample = key_.first_sample});
}

void GraphRunner::RunSum(size_t node_index) {
  const Node& node = current_->step.nodes[node_index];
  const std::vector<const void*> terms = Read(node.output_grads);
  const std::vector<void*> sum = Write(node.input_grads);
  current_->sums[node_index]->Forward({.inputs = terms, .outputs = sum});
}

void GraphRunner::RunBackward(const Node& node, absl::Span<float* const> gradients) {
  if (node.no_work) return;
  const Op& op = graph_.ops()[node.op];
  for (ValueId id : node.output_grads) {
    if (id == kNoValue || !current_->zeros[id]) continue;
    options_.backend->Clear(At(id), current_->step.values[id].bytes);
  }
  const std::vector<const void*> inputs = Read(node.inputs);
  const std::vector<const void*> outputs = Read(node.outputs);
  const std::vector<const void*> output_grads = Read(node.output_grads);
  const std::vector<void*> input_grads = Write(node.input_grads);
  const std::vector<const float*> params = ParamsOf(op);
  current_->kernels[node.op]->Backward({.inputs = inputs,
                                        .params = params,
                                        .outputs = outputs,
                                        .output_grads = output_grads,
                                        .input_grads = input_grads,
                                        .param_grads = gradients,
                                        .saved = At(node.saved),
                                        .scratch = At(node.scratch),
                                        .step = key_.step,
                                        .first_sample = key_.first_sample});
}

void GraphRunner::RunBackwardNodes(size_t op, absl::Span<float* const> gradients) {
  const StepGraph& step = current_->step;
  for (uint32_t i = step.backward_begin[op]; i < step.backward_end[op]; ++i) {
    const Node& node = step.nodes[i];
    switch (node.kind) {
      case NodeKind::kForward:
        RunForward(node);
        break;
      case NodeKind::kSum:
        RunSum(i);
        break;
      case NodeKind::kBackward:
        RunBackward(node, gradients);
        break;
    }
  }
}

void GraphRunner::ForwardOp(size_t op) {
  CHECK_EQ(op, forward_done_) << "operators run forward in order";
  const size_t ops = graph_.ops().size();
  if (device_ == nullptr) {
    RunForward(current_->step.nodes[op]);
  } else {
    for (ParamId id : graph_.ops()[op].params) {
      device_->SendParam(id, params_[soapstone::Index(id)].floats().data());
    }
    ForwardOnDevice(op, false);
    if (key_.training && op + 1 == ops) {
      device_->FetchLoss(At(current_->step.loss), samples_, loss_.floats().data());
    }
  }
  ++forward_done_;
  if (forward_done_ == ops && key_.training) backward_left_ = ops;
}

void GraphRunner::BackwardOp(size_t op_index, absl::Span<const absl::Span<float>> gradients) {
  const Op& op = graph_.ops()[op_index];
  CHECK_EQ(op_index + 1, backward_left_) << "operators run backward in reverse, after the loss";
  CHECK_EQ(gradients.size(), op.params.size());
  --backward_left_;
  if (device_ != nullptr) {
    if (op_index + 1 == graph_.ops().size()) {
      device_->Backward(RunOnDevice(), [this](size_t k) { RunBackwardOnDevice(k); });
    }
    device_->FetchGradients(op_index, gradients);
    return;
  }
  std::vector<float*> at;
  for (size_t i = 0; i < op.params.size(); ++i) {
    CHECK_EQ(gradients[i].size(), graph_.param(op.params[i]).elements());
    at.push_back(gradients[i].data());
  }
  RunBackwardNodes(op_index, at);
}

void GraphRunner::WaitForGradients(size_t op) const {
  if (device_ != nullptr) device_->WaitForGradients(op);
}

void GraphRunner::Watch() {
  if (device_ != nullptr) device_->Watch();
}
std::vector<compute::QueueSpan> GraphRunner::Unwatch() {
  return device_ == nullptr ? std::vector<compute::QueueSpan>() : device_->Unwatch();
}

double GraphRunner::SumOf(ValueId id) const {
  CHECK_EQ(forward_done_, graph_.ops().size());
  std::vector<float> each(static_cast<size_t>(samples_));
  options_.backend->Export(compute::PlainFormat({.shape = {samples_}}), At(id), each.data());
  double sum = 0;
  for (float x : each) sum += x;
  return sum;
}

double GraphRunner::loss_sum() const {
  if (device_ == nullptr || !key_.training) return SumOf(current_->step.loss);
  CHECK_EQ(forward_done_, graph_.ops().size());
  device_->WaitForLoss();
  double sum = 0;
  for (float x : loss_.floats().first(static_cast<size_t>(samples_))) sum += x;
  return sum;
}
double GraphRunner::correct() const { return SumOf(current_->step.correct); }

std::vector<float> GraphRunner::logits() const {
  CHECK_EQ(forward_done_, graph_.ops().size());
  const compute::TensorSpec spec = graph_.tensor(graph_.logits()).spec(samples_);
  compute::Format format = compute::PlainFormat(spec);
  for (size_t k = 0; k < graph_.ops().size(); ++k) {
    const std::vector<TensorId>& outputs = graph_.ops()[k].outputs;
    for (size_t j = 0; j < outputs.size(); ++j) {
      if (outputs[j] == graph_.logits()) format = current_->kernels[k]->plan().outputs[j];
    }
  }
  return Plain(format, current_->step.logits);
}

std::vector<float> GraphRunner::InputGradient(TensorId input) const {
  CHECK(key_.training && forward_done_ == graph_.ops().size() && backward_left_ == 0);
  const std::vector<TensorId>& inputs = graph_.inputs();
  const auto i =
      static_cast<size_t>(std::find(inputs.begin(), inputs.end(), input) - inputs.begin());
  CHECK(i < inputs.size() && current_->step.input_grads[i] != kNoValue) << "it was not asked for";
  return Plain(compute::PlainFormat(graph_.tensor(input).spec(samples_)),
               current_->step.input_grads[i]);
}

std::vector<float> GraphRunner::output() {
  CHECK_GE(forward_done_, 1u);
  const size_t op = forward_done_ - 1;
  if (device_ != nullptr) ForwardOnDevice(op, true);
  return Plain(current_->kernels[op]->plan().outputs[0], current_->step.nodes[op].outputs[0]);
}

std::vector<float> GraphRunner::Plain(const compute::Format& format, ValueId id) const {
  std::vector<float> plain(static_cast<size_t>(format.spec.elements()));
  options_.backend->Export(format, At(id), plain.data());
  return plain;
}

}  // namespace soapstone::models
