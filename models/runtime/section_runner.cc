#include "models/runtime/section_runner.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "compute/cpu/backend.h"
#include "compute/op_text.h"
#include "glog/logging.h"
#include "models/runtime/box_copy.h"

namespace soapstone::models {
namespace {

using Kind = SectionNode::Kind;
using Shape = std::vector<int64_t>;

SectionOptions WithBackend(SectionOptions options) {
  if (options.backend == nullptr) {
    options.backend = compute::MakeCpuBackend({.threads = options.threads});
  }
  return options;
}

void AppendSpec(const compute::TensorSpec& spec, std::string* text) {
  absl::StrAppend(text, ";", static_cast<int>(spec.type), ":", absl::StrJoin(spec.shape, ","));
}

// Requests of one text are for equal kernels: micro-batches of a size share theirs.
std::string KeyOf(const compute::KernelRequest& request) {
  std::string key = compute::TextOf(request.op);
  for (const compute::Format& input : request.inputs) {
    AppendSpec(input.spec, &key);
    absl::StrAppend(&key, "@", reinterpret_cast<uintptr_t>(input.layout.get()));
  }
  for (const compute::TensorSpec& param : request.params) AppendSpec(param, &key);
  for (const compute::TensorSpec& output : request.outputs) AppendSpec(output, &key);
  for (const bool wanted : request.input_grads_wanted) key += wanted ? '+' : '-';
  key += request.training ? 't' : 'e';
  if (std::holds_alternative<compute::Dropout>(request.op)) {
    absl::StrAppend(&key, "#", request.op_index, " ", request.seed);
  }
  return key;
}

}  // namespace

SectionRunner::SectionRunner(Section section, SectionOptions options)
    : section_(options.training ? std::move(section) : ForwardHalf(std::move(section))),
      options_(WithBackend(std::move(options))),
      made_(options_.kernels == nullptr ? std::make_shared<KernelCache>() : options_.kernels),
      memory_(options_.memory == nullptr ? std::make_shared<SectionMemory>() : options_.memory) {}

absl::StatusOr<std::unique_ptr<SectionRunner>> SectionRunner::Create(Section section,
                                                                     SectionOptions options) {
  std::unique_ptr<SectionRunner> runner(new SectionRunner(std::move(section), std::move(options)));
  SOAP_RETURN_IF_ERROR(runner->Prepare());
  for (const ParamBlock& block : runner->section_.param_blocks) {
    const compute::TensorSpec spec = {.shape = block.tensor.shape()};
    runner->params_.push_back(runner->pool_.Take(static_cast<size_t>(spec.bytes())));
    std::memset(runner->params_.back().data, 0, runner->params_.back().size);
  }
  runner->taken_.resize(runner->section_.incoming.size());
  return runner;
}

absl::StatusOr<MemoryPlan> SectionRunner::Plan(Section section, SectionOptions options) {
  SectionRunner runner(std::move(section), std::move(options));
  SOAP_RETURN_IF_ERROR(runner.Prepare());
  return std::move(runner.memory_plan_);
}

absl::Status SectionRunner::Prepare() {
  if (options_.backend->is_device()) {
    return absl::UnimplementedError("sections run on processors so far, not on devices");
  }
  SOAP_RETURN_IF_ERROR(MakeKernels());
  std::vector<const compute::KernelPlan*> plans;
  for (const compute::Kernel* kernel : kernels_) plans.push_back(&kernel->plan());
  plan_ = PlanSection(section_, plans);
  memory_plan_ = PlanMemory(plan_.values, plan_.nodes.size());
  return MakeSums();
}

compute::KernelRequest SectionRunner::RequestOf(uint32_t p) const {
  const SectionPart& part = section_.parts[p];
  compute::KernelRequest request = {.op = part.op,
                                    .name = part.name,
                                    .training = options_.training,
                                    .seed = options_.seed,
                                    .op_index = part.model_op};
  for (const PartInput& input : part.inputs) {
    compute::Format format = compute::PlainFormat(input.spec);
    if (input.from.kind == Assembly::Kind::kPass) {
      const bool message = input.from.source.kind == BlockSource::Kind::kMessage;
      format = message ? FormatOf(input.made_by, input.made_slot)
                       : FormatOf(input.from.source.index, input.from.source.slot);
    }
    request.inputs.push_back(std::move(format));
    if (options_.training) request.input_grads_wanted.push_back(input.gradient);
  }
  for (const std::vector<int64_t>& shape : part.param_shapes) {
    request.params.push_back({.shape = shape});
  }
  for (const PartOutput& output : part.outputs) request.outputs.push_back(output.spec);
  return request;
}

absl::StatusOr<compute::Kernel*> SectionRunner::KernelFor(const compute::KernelRequest& request) {
  std::unique_ptr<compute::Kernel>& kernel = (*made_)[KeyOf(request)];
  if (kernel == nullptr) {
    SOAP_ASSIGN_OR_RETURN(kernel, options_.backend->Prepare(request));
  }
  return kernel.get();
}

// Parts in an order in which each comes after those whose formats it takes.
absl::Status SectionRunner::MakeKernels() {
  kernels_.assign(section_.parts.size(), nullptr);
  std::vector<uint32_t> todo;
  for (uint32_t p = 0; p < section_.parts.size(); ++p) {
    todo.push_back(p);
    while (!todo.empty()) {
      const uint32_t part = todo.back();
      bool ready = true;
      for (const PartInput& input : section_.parts[part].inputs) {
        if (input.from.kind != Assembly::Kind::kPass) continue;
        const bool message = input.from.source.kind == BlockSource::Kind::kMessage;
        const uint32_t maker = message ? input.made_by : input.from.source.index;
        if (kernels_[maker] != nullptr) continue;
        todo.push_back(maker);
        ready = false;
      }
      if (!ready) continue;
      todo.pop_back();
      if (kernels_[part] != nullptr) continue;
      SOAP_ASSIGN_OR_RETURN(kernels_[part], KernelFor(RequestOf(part)));
    }
  }
  return absl::OkStatus();
}

absl::Status SectionRunner::MakeSums() {
  sums_.assign(plan_.nodes.size(), nullptr);
  for (size_t i = 0; i < plan_.nodes.size(); ++i) {
    const SectionNode& node = plan_.nodes[i];
    if (node.kind != Kind::kSum) continue;
    const compute::Format& format = FormatOf(node.format_part, node.format_slot);
    const compute::KernelRequest request = {
        .op = compute::Add{},
        .name = absl::StrCat("grad ", section_.parts[node.part].name),
        .inputs = std::vector(node.output_grads.size(), format),
        .outputs = {format.spec},
        .training = false};
    SOAP_ASSIGN_OR_RETURN(sums_[i], KernelFor(request));
    CHECK_EQ(sums_[i]->plan().outputs[0].bytes, format.bytes);
    CHECK_EQ(sums_[i]->plan().forward_scratch_bytes, 0u) << "a sum of equal formats";
  }
  return absl::OkStatus();
}

void* SectionRunner::At(ValueId id) const {
  if (id == kNoValue) return nullptr;
  return static_cast<std::byte*>(memory_->block.get()) + memory_plan_.offsets[id];
}

std::vector<const void*> SectionRunner::Read(const ValueIds& ids) const {
  std::vector<const void*> at;
  at.reserve(ids.size());
  for (const ValueId id : ids) at.push_back(At(id));
  return at;
}

std::vector<void*> SectionRunner::Write(const ValueIds& ids) const {
  std::vector<void*> at;
  at.reserve(ids.size());
  for (const ValueId id : ids) at.push_back(At(id));
  return at;
}

std::vector<const float*> SectionRunner::ParamsOf(const SectionPart& part) const {
  std::vector<const float*> at;
  for (const uint32_t block : part.params) at.push_back(params_[block].floats().data());
  return at;
}

// Every box that a part reads of a field is there.
absl::Status SectionRunner::CheckBatch(const SectionBatch& batch) const {
  for (uint32_t p = 0; p < section_.own_parts; ++p) {
    for (const PartInput& input : section_.parts[p].inputs) {
      const Assembly& from = input.from;
      if (from.kind != Assembly::Kind::kField) continue;
      bool fits = from.field < batch.fields.size() && from.field < batch.shapes.size() &&
                  batch.shapes[from.field].size() == from.move.size.size();
      for (size_t i = 0; fits && i < from.move.size.size(); ++i) {
        fits = from.move.from[i] + from.move.size[i] <= batch.shapes[from.field][i];
      }
      if (fits) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          section_.parts[p].name, " reads more of input ", from.field, " than the batch has"));
    }
  }
  return absl::OkStatus();
}

absl::Status SectionRunner::Begin(const SectionBatch& batch) {
  SOAP_RETURN_IF_ERROR(CheckBatch(batch));
  if (memory_->bytes < memory_plan_.bytes) {
    *memory_ = {};  // not two at a time
    SOAP_ASSIGN_OR_RETURN(memory_->block, options_.backend->Allocate(memory_plan_.bytes));
    memory_->bytes = memory_plan_.bytes;
  }
  batch_ = batch;
  next_step_ = 0;
  loss_sum_ = correct_ = 0;
  samples_ = 0;
  return absl::OkStatus();
}

void SectionRunner::Take(uint32_t incoming, Buffer block) {
  const compute::TensorSpec spec = {.shape = section_.incoming[incoming].size};
  CHECK_EQ(block.size(), static_cast<size_t>(spec.bytes()));
  taken_[incoming] = std::move(block);
  RunStep(SectionStep::Kind::kTake, incoming);
}

void SectionRunner::Forward(uint32_t part) { RunStep(SectionStep::Kind::kForward, part); }

void SectionRunner::Backward(uint32_t part, absl::Span<const absl::Span<float>> gradients) {
  const std::vector<uint32_t>& params = section_.parts[part].params;
  CHECK_EQ(gradients.size(), params.size());
  for (size_t i = 0; i < params.size(); ++i) {
    CHECK_EQ(gradients[i].size(), params_[params[i]].floats().size());
  }
  gradients_ = gradients;
  RunStep(SectionStep::Kind::kBackward, part);
  gradients_ = {};
}

Buffer SectionRunner::Give(uint32_t outgoing) {
  RunStep(SectionStep::Kind::kGive, outgoing);
  Buffer block = given_.View();
  given_ = {};
  return block;
}

void SectionRunner::RunStep(SectionStep::Kind kind, uint32_t index) {
  CHECK_LT(next_step_, section_.steps.size());
  CHECK(section_.steps[next_step_] == (SectionStep{.kind = kind, .index = index}))
      << "steps run in their order; step " << next_step_;
  for (uint32_t n = plan_.step_begin[next_step_]; n < plan_.step_begin[next_step_ + 1]; ++n) {
    RunNode(n);
  }
  for (const uint32_t message : plan_.last_read[next_step_]) taken_[message] = {};
  ++next_step_;
}

void SectionRunner::RunNode(uint32_t index) {
  const SectionNode& node = plan_.nodes[index];
  compute::Backend& backend = *options_.backend;
  switch (node.kind) {
    case Kind::kClear:
      backend.Clear(At(node.outputs[0]), plan_.values[node.outputs[0]].bytes);
      break;
    case Kind::kField:
      RunField(node);
      break;
    case Kind::kAssemble:
      RunAssemble(node);
      break;
    case Kind::kImport:
      RunImport(node);
      break;
    case Kind::kExport:
      backend.Export(FormatOf(node.format_part, node.format_slot), At(node.inputs[0]),
                     At(node.outputs[0]));
      break;
    case Kind::kForward:
      RunForward(node);
      break;
    case Kind::kBackward:
      RunBackward(node);
      break;
    case Kind::kSum: {
      const std::vector<const void*> terms = Read(node.output_grads);
      const std::vector<void*> sum = Write(node.input_grads);
      sums_[index]->Forward({.inputs = terms, .outputs = sum});
      break;
    }
    case Kind::kMask:
      RunMask(node);
      break;
    case Kind::kGive:
      RunGive(node);
      break;
  }
}

void SectionRunner::RunField(const SectionNode& node) {
  const PartInput& input = section_.parts[node.part].inputs[node.slot];
  const Assembly& from = *node.assembly;
  if (!from.covered) {
    std::fill_n(static_cast<float*>(At(node.outputs[0])), input.spec.elements(), input.fill);
  }
  MoveBox(from.move, batch_.shapes[from.field], batch_.fields[from.field], input.spec.shape,
          At(node.outputs[0]));
  if (input.rows.has_value()) {
    ShiftIds(*input.rows, {static_cast<int32_t*>(At(node.outputs[0])),
                           static_cast<size_t>(input.spec.elements())});
  }
}

// gradient: of a part's input, else a part's output. A message is the box alone.
void SectionRunner::AddBox(const Box& box, ValueId source, bool gradient, const Shape& to_shape,
                           void* to) {
  const BoxWrite write = {.adds = box.adds, .scale = box.scale};
  if (box.source.kind == BlockSource::Kind::kMessage) {
    CHECK_GT(taken_[box.source.index].size(), 0u) << "a message that is not there";
    MoveBox(box.move, box.move.size, taken_[box.source.index].data(), to_shape, to, write);
    return;
  }
  const SectionPart& part = section_.parts[box.source.index];
  const Shape& shape =
      gradient ? part.inputs[box.source.slot].spec.shape : part.outputs[box.source.slot].spec.shape;
  MoveBox(box.move, shape, At(source), to_shape, to, write);
}

void SectionRunner::RunAssemble(const SectionNode& node) {
  const SectionPart& part = section_.parts[node.part];
  const compute::TensorSpec& spec =
      node.of_input ? part.inputs[node.slot].spec : part.outputs[node.slot].spec;
  auto* const to = static_cast<float*>(At(node.outputs[0]));
  const Assembly& from = *node.assembly;
  if (!from.covered) {
    std::fill_n(to, spec.elements(), node.of_input ? part.inputs[node.slot].fill : 0.0f);
  }
  for (size_t b = 0; b < from.boxes.size(); ++b) {
    AddBox(from.boxes[b], node.sources[b], !node.of_input, spec.shape, to);
  }
  if (!node.of_input) return;
  const PartInput& input = part.inputs[node.slot];
  if (input.rows.has_value()) {
    ShiftIds(*input.rows, {reinterpret_cast<int32_t*>(to), static_cast<size_t>(spec.elements())});
  }
  if (!input.relu) return;
  // Of what was put around nothing is changed.
  Shape rows = input.inside.size;
  const int64_t run = rows.empty() ? 1 : rows.back();
  if (!rows.empty()) rows.pop_back();
  Shape index(rows.size(), 0);
  while (input.inside.elements() > 0) {
    int64_t at = 0;
    for (size_t i = 0; i < input.inside.size.size(); ++i) {
      at = at * spec.shape[i] + input.inside.to[i] + (i < index.size() ? index[i] : 0);
    }
    for (int64_t i = 0; i < run; ++i) to[at + i] = std::max(to[at + i], 0.0f);
    size_t i = index.size();
    while (i > 0 && ++index[i - 1] == rows[i - 1]) index[--i] = 0;
    if (i == 0) return;
  }
}

void SectionRunner::RunImport(const SectionNode& node) {
  const compute::Format& format = FormatOf(node.format_part, node.format_slot);
  const void* plain = nullptr;
  if (!node.inputs.empty()) {
    plain = At(node.inputs[0]);
  } else {
    const Assembly& from = *node.assembly;
    const uint32_t message =
        from.kind == Assembly::Kind::kPass ? from.source.index : from.boxes[0].source.index;
    CHECK_GT(taken_[message].size(), 0u) << "a message that is not there";
    plain = taken_[message].data();
  }
  options_.backend->Import(plain, format, At(node.outputs[0]));
}

void SectionRunner::RunForward(const SectionNode& node) {
  const SectionPart& part = section_.parts[node.part];
  if (!node.no_work) {
    const std::vector<const void*> inputs = Read(node.inputs);
    const std::vector<void*> outputs = Write(node.outputs);
    const std::vector<const float*> params = ParamsOf(part);
    kernels_[node.part]->Forward(
        {.inputs = inputs,
         .params = params,
         .outputs = outputs,
         .saved = At(node.saved),
         .scratch = At(node.scratch),
         .step = batch_.step,
         .first_sample = batch_.first_sample + static_cast<uint64_t>(part.first_sample)});
  }
  if (part.is_loss()) CountLoss(part, node);
}

void SectionRunner::CountLoss(const SectionPart& part, const SectionNode& node) {
  const int64_t counted = std::max<int64_t>(0, batch_.counted - part.first_sample);
  const int64_t samples = std::min(part.outputs[0].spec.elements(), counted);
  const auto* const loss = static_cast<const float*>(At(node.outputs[0]));
  const auto* const correct = static_cast<const float*>(At(node.outputs[1]));
  for (int64_t i = 0; i < samples; ++i) {
    loss_sum_ += loss[i];
    correct_ += correct[i];
  }
  samples_ += samples;
}

void SectionRunner::RunBackward(const SectionNode& node) {
  if (node.no_work) return;
  const SectionPart& part = section_.parts[node.part];
  const std::vector<const void*> inputs = Read(node.inputs);
  const std::vector<const void*> outputs = Read(node.outputs);
  const std::vector<const void*> output_grads = Read(node.output_grads);
  const std::vector<void*> input_grads = Write(node.input_grads);
  const std::vector<const float*> params = ParamsOf(part);
  std::vector<float*> param_grads;
  for (const absl::Span<float> gradient : gradients_) param_grads.push_back(gradient.data());
  kernels_[node.part]->Backward(
      {.inputs = inputs,
       .params = params,
       .outputs = outputs,
       .output_grads = output_grads,
       .input_grads = input_grads,
       .param_grads = param_grads,
       .saved = At(node.saved),
       .scratch = At(node.scratch),
       .step = batch_.step,
       .first_sample = batch_.first_sample + static_cast<uint64_t>(part.first_sample)});
}

void SectionRunner::RunMask(const SectionNode& node) {
  const auto elements =
      static_cast<size_t>(section_.parts[node.part].inputs[node.slot].spec.elements());
  const auto* const gradient = static_cast<const float*>(At(node.inputs[0]));
  const auto* const input = static_cast<const float*>(At(node.inputs[1]));
  auto* const masked = static_cast<float*>(At(node.outputs[0]));
  for (size_t i = 0; i < elements; ++i) masked[i] = input[i] > 0 ? gradient[i] : 0.0f;
}

void SectionRunner::RunGive(const SectionNode& node) {
  const OutgoingBlock& block = section_.outgoing[node.part];
  const compute::TensorSpec spec = {.shape = block.size};
  given_ = pool_.Take(static_cast<size_t>(spec.bytes()));
  if (!node.inputs.empty()) {
    if (node.no_work) {
      std::memcpy(given_.data, At(node.inputs[0]), given_.size);
    } else {
      options_.backend->Export(FormatOf(node.format_part, node.format_slot), At(node.inputs[0]),
                               given_.data);
    }
    return;
  }
  for (size_t b = 0; b < block.boxes.size(); ++b) {
    AddBox(block.boxes[b], node.sources[b], block.backward, block.size, given_.data);
  }
}

}  // namespace soapstone::models
