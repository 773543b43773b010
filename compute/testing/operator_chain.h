// Several operators, one behind the other, on one backend, each tensor in the format that its
// producer chose: a step of training as a graph would run it. For tests only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "compute/kernel.h"

namespace soapstone::compute {

struct ChainLink {
  Operator op;
  std::vector<size_t> inputs;  // 0: the chain's input; i: the output of link i − 1
  std::vector<TensorSpec> params;
  TensorSpec output;
};

// All values (input, parameters, the last output's gradient) are a function of their place alone.
class OperatorChain {
 public:
  // `in_place`: an input's gradient takes the place of the output's where the plan allows it; then
  // Gradient() is right for the chain's input alone.
  static absl::StatusOr<std::unique_ptr<OperatorChain>> Make(Backend* backend,
                                                             const TensorSpec& input,
                                                             const std::vector<ChainLink>& links,
                                                             bool in_place = false);

  // Of one link; Forward in order, Backward in the opposite one. Gradients of a tensor that has
  // several readers are summed.
  void Forward(size_t link);
  void Backward(size_t link);
  void Step();
  void NoGradients() { has_grad_.assign(formats_.size(), false); }  // before a step's Backward

  size_t size() const { return links_.size(); }
  const KernelPlan& plan(size_t link) const { return links_[link].kernel->plan(); }
  // Plain. Tensor 0 is the chain's input, i the output of link i − 1.
  std::vector<float> Tensor(size_t i) const { return Plain(formats_[i], tensors_[i].get()); }
  std::vector<float> Gradient(size_t i) const { return Plain(formats_[i], grads_[i].get()); }
  const std::vector<std::vector<float>>& ParamGradients(size_t link) const {
    return links_[link].param_grads;
  }
  const Format& format(size_t i) const { return formats_[i]; }
  const void* tensor(size_t i) const { return tensors_[i].get(); }
  const void* gradient(size_t i) const { return grads_[i].get(); }

 private:
  struct Link {
    ChainLink what;
    std::unique_ptr<Kernel> kernel;
    std::shared_ptr<void> saved;
    std::vector<std::vector<float>> params, param_grads;
    std::vector<const float*> param_pointers;
    std::vector<float*> param_grad_pointers;
  };

  OperatorChain(Backend* backend, bool in_place) : backend_(backend), in_place_(in_place) {}
  absl::Status Append(const ChainLink& what);
  void AllocateAll();
  std::vector<float> Plain(const Format& format, const void* tensor) const;
  std::vector<const void*> InputsOf(const Link& link) const;

  Backend* const backend_;
  const bool in_place_;
  std::vector<Link> links_;
  std::vector<Format> formats_;                         // by tensor
  std::vector<std::shared_ptr<void>> tensors_, grads_;  // likewise
  std::vector<bool> has_grad_;                          // likewise: written in this step
  std::shared_ptr<void> scratch_;
};

}  // namespace soapstone::compute
