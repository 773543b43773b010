#include "compute/testing/operator_chain.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace soapstone::compute {
namespace {

// In [-1, 1).
std::vector<float> ChainValues(uint64_t tensor, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t h = (tensor + 1) * 0x9e3779b97f4a7c15u ^ (i + 1) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 31)) * 0x94d049bb133111ebu;
    h ^= h >> 29;
    values[i] = static_cast<float>(static_cast<double>(h >> 40) / (1 << 23) - 1);
  }
  return values;
}

}  // namespace

absl::StatusOr<std::unique_ptr<OperatorChain>> OperatorChain::Make(
    Backend* backend, const TensorSpec& input, const std::vector<ChainLink>& links, bool in_place) {
  std::unique_ptr<OperatorChain> chain(new OperatorChain(backend, in_place));
  chain->formats_ = {PlainFormat(input)};
  for (const ChainLink& link : links) {
    const absl::Status status = chain->Append(link);
    if (!status.ok()) return status;
  }
  chain->AllocateAll();
  return chain;
}

absl::Status OperatorChain::Append(const ChainLink& what) {
  KernelRequest request;
  request.op = what.op;
  request.name = absl::StrCat("link ", links_.size());
  for (size_t i : what.inputs) request.inputs.push_back(formats_[i]);
  request.params = what.params;
  request.outputs = {what.output};
  request.input_grads_wanted.assign(what.inputs.size(), true);
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = backend_->Prepare(request);
  if (!kernel.ok()) return kernel.status();
  Link link;
  link.what = what;
  link.kernel = *std::move(kernel);
  for (size_t p = 0; p < what.params.size(); ++p) {
    link.params.push_back(ChainValues(1000 * links_.size() + p, what.params[p].elements()));
    if (std::holds_alternative<BatchNorm>(what.op)) {
      for (float& v : link.params.back()) v = 0.1f * v + (p == 0 || p == 3 ? 1.0f : 0.0f);
    } else {  // so that values stay about 1 in size
      const double fan_in = static_cast<double>(what.params[0].elements()) /
                            static_cast<double>(what.params[0].shape[0]);
      for (float& v : link.params.back()) v = static_cast<float>(v * 1.7 / std::sqrt(fan_in));
    }
    link.param_grads.emplace_back(link.params.back().size());
  }
  formats_.push_back(link.kernel->plan().outputs[0]);
  links_.push_back(std::move(link));
  return absl::OkStatus();
}

void OperatorChain::AllocateAll() {
  size_t scratch = 0;
  for (Link& link : links_) {
    const KernelPlan& plan = link.kernel->plan();
    scratch = std::max({scratch, plan.forward_scratch_bytes, plan.backward_scratch_bytes});
    link.saved = *backend_->Allocate(plan.saved_bytes);
    for (const std::vector<float>& p : link.params) link.param_pointers.push_back(p.data());
    for (std::vector<float>& p : link.param_grads) link.param_grad_pointers.push_back(p.data());
  }
  scratch_ = *backend_->Allocate(scratch);
  for (const Format& format : formats_) {
    for (std::vector<std::shared_ptr<void>>* all : {&tensors_, &grads_}) {
      all->push_back(*backend_->Allocate(format.bytes));
      std::memset(all->back().get(), 0xff, format.bytes);  // NaN
    }
  }
  has_grad_.resize(formats_.size());
  const std::vector<float> x = ChainValues(~0u, formats_[0].spec.elements());
  backend_->Import(x.data(), formats_[0], tensors_[0].get());
  const std::vector<float> dy = ChainValues(~1u, formats_.back().spec.elements());
  backend_->Import(dy.data(), formats_.back(), grads_.back().get());
}

std::vector<float> OperatorChain::Plain(const Format& format, const void* tensor) const {
  std::vector<float> plain(static_cast<size_t>(format.spec.elements()));
  backend_->Export(format, tensor, plain.data());
  return plain;
}

std::vector<const void*> OperatorChain::InputsOf(const Link& link) const {
  std::vector<const void*> inputs;
  for (size_t i : link.what.inputs) inputs.push_back(tensors_[i].get());
  return inputs;
}

void OperatorChain::Forward(size_t l) {
  Link& link = links_[l];
  if (link.kernel->plan().alias) tensors_[l + 1] = tensors_[link.what.inputs[0]];
  const std::vector<const void*> inputs = InputsOf(link);
  void* outputs[] = {tensors_[l + 1].get()};
  link.kernel->Forward({.inputs = inputs,
                        .params = link.param_pointers,
                        .outputs = outputs,
                        .saved = link.saved.get(),
                        .scratch = scratch_.get()});
}

void OperatorChain::Backward(size_t l) {
  Link& link = links_[l];
  const KernelPlan& plan = link.kernel->plan();
  const std::vector<const void*> inputs = InputsOf(link);
  const void* outputs[] = {tensors_[l + 1].get()};
  const void* output_grads[] = {grads_[l + 1].get()};
  std::vector<std::shared_ptr<void>> made;
  std::vector<void*> pointers;
  for (size_t i : link.what.inputs) {
    const bool replaces = in_place_ && plan.backward_in_place && made.empty();
    if (has_grad_[i]) {
      made.push_back(replaces ? grads_[l + 1] : *backend_->Allocate(formats_[i].bytes));
    } else {
      if (replaces) grads_[i] = grads_[l + 1];
      made.push_back(grads_[i]);
    }
    pointers.push_back(made.back().get());
  }
  link.kernel->Backward({.inputs = inputs,
                         .params = link.param_pointers,
                         .outputs = outputs,
                         .output_grads = output_grads,
                         .input_grads = pointers,
                         .param_grads = link.param_grad_pointers,
                         .saved = link.saved.get(),
                         .scratch = scratch_.get()});
  for (size_t n = 0; n < made.size(); ++n) {
    const size_t i = link.what.inputs[n];
    const size_t bytes = formats_[i].bytes;
    if (plan.alias || plan.backward_alias) std::memcpy(pointers[n], output_grads[0], bytes);
    if (has_grad_[i]) {
      float* sum = static_cast<float*>(grads_[i].get());
      for (size_t j = 0; j < bytes / sizeof(float); ++j) {
        sum[j] += static_cast<const float*>(pointers[n])[j];
      }
    }
    has_grad_[i] = true;
  }
}

void OperatorChain::Step() {
  for (size_t l = 0; l < links_.size(); ++l) Forward(l);
  NoGradients();
  for (size_t l = links_.size(); l-- > 0;) Backward(l);
}

}  // namespace soapstone::compute
