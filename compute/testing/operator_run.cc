// Values of operator cases, and a run of one on any backend (operator_cases.h).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "compute/testing/operator_cases.h"

namespace soapstone::compute {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A stream of its own for each tensor of each case: FNV-1a of the name and the tensor's.
CounterRandom StreamOf(const OperatorCase& c, uint64_t seed, absl::string_view role, size_t index) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char ch : absl::StrCat(c.name, "/", role, index)) {
    hash = (hash ^ static_cast<uint8_t>(ch)) * 0x100000001b3u;
  }
  return CounterRandom(seed, RandomUse::kTest, hash);
}

// In [-1, 1).
std::vector<float> RandomReals(const CounterRandom& random, int64_t count) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(2 * random.Uniform(i) - 1);
  return values;
}

// Different by 1/100 at least, in a random order: no two are near a change of the maximum.
std::vector<float> SpacedRandomReals(const CounterRandom& random, int64_t count) {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::pair(random.Bits(a), a) < std::pair(random.Bits(b), b);
  });
  const double space = std::max(0.01, 2.0 / static_cast<double>(count));
  std::vector<float> values(count);
  for (int64_t rank = 0; rank < count; ++rank) {
    const double from_middle = static_cast<double>(rank) - static_cast<double>(count - 1) / 2;
    values[order[rank]] = static_cast<float>(space * from_middle);
  }
  return values;
}

// Ids of an embedding in [0, rows); labels in [-1, V), a sixth of them -1, and the first sample of
// three or more without any.
std::vector<float> Integers(const OperatorCase& c, const TensorSpec& spec,
                            const CounterRandom& random) {
  std::vector<float> values(spec.elements());
  const int64_t per_sample = spec.elements() / spec.shape[0];
  for (int64_t i = 0; i < spec.elements(); ++i) {
    int32_t v = 0;
    if (const auto* embedding = std::get_if<Embedding>(&c.op)) {
      v = static_cast<int32_t>(random.Below(i, embedding->rows));
    } else {
      const bool none = spec.elements() > 1 &&
                        (random.Uniform(2 * i) < 1.0 / 6 || (spec.shape[0] > 2 && i < per_sample));
      v = none ? -1 : static_cast<int32_t>(random.Below(2 * i + 1, c.inputs[0].shape.back()));
    }
    values[i] = std::bit_cast<float>(v);
  }
  return values;
}

std::vector<float> InputOf(const OperatorCase& c, size_t index, const CounterRandom& random) {
  const TensorSpec& spec = c.inputs[index];
  if (spec.type == DataType::kInt32) return Integers(c, spec, random);
  const auto* pool = std::get_if<Pool>(&c.op);
  if (pool != nullptr && pool->kind == PoolKind::kMax)
    return SpacedRandomReals(random, spec.elements());
  std::vector<float> values = RandomReals(random, spec.elements());
  if (std::holds_alternative<NormalizeByMoments>(c.op) && index == 1) {
    for (size_t i = 1; i < values.size(); i += 2)
      values[i] = 20 + 5 * values[i];  // sums of squares
  }
  const auto* activation = std::get_if<Activation>(&c.op);
  if (activation != nullptr && activation->kind == ActivationKind::kRelu) {
    for (float& v : values) v += v < 0 ? -0.05f : 0.05f;  // away from the kink
  }
  return values;
}

std::vector<float> ParamOf(const OperatorCase& c, size_t index, const CounterRandom& random) {
  std::vector<float> values = RandomReals(random, c.params[index].elements());
  // A scale and a variance are positive.
  const bool norm =
      std::holds_alternative<BatchNorm>(c.op) || std::holds_alternative<NormalizeByMoments>(c.op);
  if (norm && (index == 0 || index == 3)) {
    for (float& v : values) v = 1.25f + 0.75f * v;
  }
  return values;
}

// Every second place's label has the largest logit, so that there are hits.
void RaiseLabels(const OperatorCase& c, CaseValues* values) {
  const int64_t classes = c.inputs[0].shape.back();
  for (int64_t place = 0; place < c.inputs[1].elements(); place += 2) {
    const auto label = std::bit_cast<int32_t>(values->inputs[1][place]);
    if (label >= 0) values->inputs[0][place * classes + label] += 2;
  }
}

}  // namespace

KernelRequest RequestOf(const OperatorCase& c) {
  KernelRequest request{.op = c.op,
                        .name = c.name,
                        .inputs = {},
                        .params = c.params,
                        .outputs = c.outputs,
                        .training = c.training,
                        .input_grads_wanted = {},
                        .seed = kCaseSeed,
                        .op_index = kCaseOpIndex};
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    request.inputs.push_back(PlainFormat(c.inputs[i]));
    const bool wanted = c.wanted.empty() || c.wanted[i];
    const bool real = c.inputs[i].type == DataType::kFloat32;
    if (c.training) request.input_grads_wanted.push_back(wanted && real);
  }
  return request;
}

CaseValues ValuesOf(const OperatorCase& c, uint64_t seed) {
  CaseValues values;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    values.inputs.push_back(InputOf(c, i, StreamOf(c, seed, "input", i)));
  }
  for (size_t i = 0; i < c.params.size(); ++i) {
    values.params.push_back(ParamOf(c, i, StreamOf(c, seed, "param", i)));
  }
  if (std::holds_alternative<SoftmaxCrossEntropy>(c.op)) {
    RaiseLabels(c, &values);
    return values;
  }
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    values.output_grads.push_back(
        RandomReals(StreamOf(c, seed, "output_grad", i), c.outputs[i].elements()));
  }
  return values;
}

namespace {

// One run of a case: the kernel's tensors, and what the caller of a kernel does.
class CaseRun {
 public:
  CaseRun(Backend* backend, const OperatorCase& c, const CaseValues& values, bool in_place)
      : backend_(backend), case_(c), values_(values), in_place_(in_place) {}

  absl::Status Prepare() {
    const KernelRequest request = RequestOf(case_);
    inputs_format_ = request.inputs;
    wanted_ = request.input_grads_wanted;
    SOAP_ASSIGN_OR_RETURN(kernel_, backend_->Prepare(request));
    return CheckPlan();
  }

  absl::Status Forward() {
    const KernelPlan& plan = kernel_->plan();
    SOAP_RETURN_IF_ERROR(AllocateAll(inputs_format_, &inputs_));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      backend_->Import(values_.inputs[i].data(), inputs_format_[i], inputs_[i].get());
    }
    for (const TensorSpec& spec : case_.params) params_format_.push_back(PlainFormat(spec));
    SOAP_RETURN_IF_ERROR(AllocateAll(params_format_, &params_));
    for (size_t i = 0; i < params_.size(); ++i) {
      backend_->Import(values_.params[i].data(), params_format_[i], params_[i].get());
    }
    SOAP_RETURN_IF_ERROR(AllocateAll(plan.outputs, &outputs_));
    overwrites_input_ = plan.alias || (in_place_ && plan.forward_in_place);
    if (overwrites_input_) outputs_[0] = inputs_[0];
    SOAP_ASSIGN_OR_RETURN(saved_, AllocateNan(plan.saved_bytes));
    SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<void> scratch,
                          AllocateNan(plan.forward_scratch_bytes));
    kernel_->Forward({.inputs = Const(inputs_),
                      .params = ConstFloats(params_),
                      .outputs = Mutable(outputs_),
                      .saved = saved_.get(),
                      .scratch = scratch.get(),
                      .step = kCaseStep,
                      .first_sample = kCaseFirstSample});
    ExportAll(plan.outputs, outputs_, &result_.outputs);
    return CheckUnchanged("Forward");
  }

  absl::Status Backward() {
    const KernelPlan& plan = kernel_->plan();
    std::vector<Tensor> output_grads, input_grads, param_grads;
    SOAP_RETURN_IF_ERROR(MakeOutputGrads(&output_grads));
    SOAP_RETURN_IF_ERROR(AllocateAll(inputs_format_, &input_grads));
    for (size_t i = 0; i < input_grads.size(); ++i) {
      const bool shared =
          plan.backward_alias || (i == 0 && (plan.alias || (in_place_ && plan.backward_in_place)));
      if (!wanted_[i]) {
        input_grads[i] = nullptr;
      } else if (shared && !output_grads.empty()) {
        input_grads[i] = output_grads[0];
      }
    }
    SOAP_RETURN_IF_ERROR(AllocateAll(params_format_, &param_grads));
    SOAP_RETURN_IF_ERROR(HideUnread());
    SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<void> scratch,
                          AllocateNan(plan.backward_scratch_bytes));
    kernel_->Backward({.inputs = Const(inputs_),
                       .params = ConstFloats(params_),
                       .outputs = Const(outputs_),
                       .output_grads = Const(output_grads),
                       .input_grads = Mutable(input_grads),
                       .param_grads = Floats(param_grads),
                       .saved = saved_.get(),
                       .scratch = scratch.get(),
                       .step = kCaseStep,
                       .first_sample = kCaseFirstSample});
    ExportAll(inputs_format_, input_grads, &result_.input_grads);
    ExportAll(params_format_, param_grads, &result_.param_grads);
    return CheckUnchanged("Backward");
  }

  CaseResult TakeResult() { return std::move(result_); }

 private:
  using Tensor = std::shared_ptr<void>;

  absl::Status Wrong(absl::string_view what) const {
    return absl::InternalError(absl::StrCat(case_.name, ": ", what));
  }

  absl::Status CheckPlan() const {
    const KernelPlan& plan = kernel_->plan();
    if (plan.outputs.size() != case_.outputs.size()) return Wrong("the plan lacks outputs");
    for (size_t i = 0; i < plan.outputs.size(); ++i) {
      if (plan.outputs[i].spec != case_.outputs[i]) return Wrong("an output of another shape");
      if (plan.outputs[i].bytes < static_cast<size_t>(case_.outputs[i].bytes())) {
        return Wrong("an output in too few bytes");
      }
    }
    const bool shares = plan.alias || plan.forward_in_place || plan.backward_in_place;
    if (shares && plan.outputs[0].bytes != inputs_format_[0].bytes) {
      return Wrong("an output in place of an input of other bytes");
    }
    if (!case_.training) return absl::OkStatus();
    if (plan.backward_reads_input.size() != case_.inputs.size() ||
        plan.backward_reads_output.size() != case_.outputs.size()) {
      return Wrong("the plan does not say of each tensor whether Backward reads it");
    }
    if (plan.forward_in_place && plan.backward_reads_input[0]) {
      return Wrong("Backward reads an input that Forward may overwrite");
    }
    return absl::OkStatus();
  }

  // Bytes beyond whole floats stay as they are.
  void FillWithNan(void* tensor, size_t bytes) {
    const std::vector<float> nan(bytes / sizeof(float), kNan);
    const int64_t count = static_cast<int64_t>(nan.size());
    if (count > 0) backend_->Import(nan.data(), PlainFormat({DataType::kFloat32, {count}}), tensor);
  }
  absl::StatusOr<Tensor> AllocateNan(size_t bytes) {
    if (bytes == 0) return Tensor();
    SOAP_ASSIGN_OR_RETURN(Tensor tensor, backend_->Allocate(bytes));
    FillWithNan(tensor.get(), bytes);
    return tensor;
  }
  absl::Status AllocateAll(const std::vector<Format>& formats, std::vector<Tensor>* tensors) {
    for (const Format& format : formats) {
      SOAP_ASSIGN_OR_RETURN(Tensor tensor, AllocateNan(format.bytes));
      tensors->push_back(std::move(tensor));
    }
    return absl::OkStatus();
  }

  absl::Status MakeOutputGrads(std::vector<Tensor>* grads) {
    if (values_.output_grads.empty()) return absl::OkStatus();
    const std::vector<Format>& formats = kernel_->plan().outputs;
    SOAP_RETURN_IF_ERROR(AllocateAll(formats, grads));
    for (size_t i = 0; i < grads->size(); ++i) {
      backend_->Import(values_.output_grads[i].data(), formats[i], (*grads)[i].get());
    }
    return absl::OkStatus();
  }

  // Overwrites what Backward does not read; the result has the outputs already.
  absl::Status HideUnread() {
    const KernelPlan& plan = kernel_->plan();
    const bool first_is_read = plan.backward_reads_input[0] || plan.backward_reads_output[0];
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (plan.backward_reads_input[i]) continue;
      const bool kept = i == 0 && overwrites_input_ && first_is_read;
      if (!kept) FillWithNan(inputs_[i].get(), inputs_format_[i].bytes);
      if (in_place_) inputs_[i] = nullptr;
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (plan.backward_reads_output[i]) continue;
      const bool kept = i == 0 && overwrites_input_ && first_is_read;
      if (!kept) FillWithNan(outputs_[i].get(), plan.outputs[i].bytes);
      if (in_place_) outputs_[i] = nullptr;
    }
    return absl::OkStatus();
  }

  absl::Status CheckUnchanged(absl::string_view by) {
    std::vector<std::vector<float>> now;
    ExportAll(params_format_, params_, &now);
    for (size_t i = 0; i < now.size(); ++i) {
      if (!SameBits(now[i], values_.params[i]))
        return Wrong(absl::StrCat(by, " wrote a parameter"));
    }
    if (by != "Forward") return absl::OkStatus();
    now.clear();
    ExportAll(inputs_format_, inputs_, &now);
    for (size_t i = overwrites_input_ ? 1 : 0; i < now.size(); ++i) {
      if (!SameBits(now[i], values_.inputs[i])) return Wrong(absl::StrCat(by, " wrote an input"));
    }
    return absl::OkStatus();
  }

  static bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }

  // An absent tensor leaves an empty vector.
  void ExportAll(const std::vector<Format>& formats, const std::vector<Tensor>& tensors,
                 std::vector<std::vector<float>>* plain) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      plain->emplace_back(tensors[i] == nullptr ? 0 : formats[i].spec.elements());
      if (tensors[i] != nullptr) {
        backend_->Export(formats[i], tensors[i].get(), plain->back().data());
      }
    }
  }

  // Spans of pointers live as long as this does.
  template <class Pointer>
  absl::Span<const Pointer> Pointers(const std::vector<Tensor>& tensors,
                                     std::vector<std::vector<Pointer>>* kept) {
    std::vector<Pointer>& pointers = kept->emplace_back();
    for (const Tensor& t : tensors) pointers.push_back(static_cast<Pointer>(t.get()));
    return pointers;
  }
  absl::Span<const void* const> Const(const std::vector<Tensor>& t) { return Pointers(t, &const_); }
  absl::Span<void* const> Mutable(const std::vector<Tensor>& t) { return Pointers(t, &mutable_); }
  absl::Span<float* const> Floats(const std::vector<Tensor>& t) { return Pointers(t, &floats_); }
  absl::Span<const float* const> ConstFloats(const std::vector<Tensor>& t) {
    return Pointers(t, &const_floats_);
  }

  Backend* const backend_;
  const OperatorCase& case_;
  const CaseValues& values_;
  const bool in_place_;

  std::unique_ptr<Kernel> kernel_;
  std::vector<bool> wanted_;
  std::vector<Format> inputs_format_, params_format_;
  std::vector<Tensor> inputs_, params_, outputs_;
  Tensor saved_;
  bool overwrites_input_ = false;
  CaseResult result_;
  std::vector<std::vector<const void*>> const_;
  std::vector<std::vector<void*>> mutable_;
  std::vector<std::vector<const float*>> const_floats_;
  std::vector<std::vector<float*>> floats_;
};

}  // namespace

absl::StatusOr<CaseResult> RunCase(Backend* backend, const OperatorCase& c,
                                   const CaseValues& values, bool in_place) {
  CaseRun run(backend, c, values, in_place);
  SOAP_RETURN_IF_ERROR(run.Prepare());
  SOAP_RETURN_IF_ERROR(run.Forward());
  if (c.training) {
    SOAP_RETURN_IF_ERROR(run.Backward());
  }
  return run.TakeResult();
}

double RelativeError(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    size += double{b[i]} * b[i];
  }
  if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
  return std::sqrt(difference) / std::max(std::sqrt(size), 1e-30);
}

}  // namespace soapstone::compute
