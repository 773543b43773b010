// What convolution and linear have in common: an input, a weight, maybe a bias, maybe relu behind;
// a primitive each for the output, for the input's gradient and for the weight's.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>

#include "compute/cpu/formats.h"
#include "compute/cpu/loops.h"
#include "compute/cpu/reordered_primitive.h"

namespace soapstone::compute {

// What the kernel is to its caller.
struct WeightedPlan {
  DnnlDesc x, w, b, y;  // layouts; `b` has no bytes where there is no bias
  Format output;        // y's, under the operator's shape
  bool relu = false;
};

class WeightedKernel : public CpuKernel {
 public:
  struct Parts {
    bool bias = false;
    bool relu = false;
    std::optional<RelaidPrimitive> forward, data, weights;
    size_t masked = 0;  // offset in backward scratch: ∂L/∂y where y > 0, if `relu`
    // Where both gradients want ∂L/∂y otherwise than it is given, it is copied once.
    std::optional<DnnlReorder> relay_dy;
    size_t relaid_dy = 0;  // offset in backward scratch
  };
  WeightedKernel(KernelPlan plan, const CpuContext& context, Parts parts)
      : CpuKernel(std::move(plan), context), parts_(std::move(parts)) {}

 protected:
  void RunForward(const ForwardArgs& args) override;
  void RunBackward(const BackwardArgs& args) override;

 private:
  Parts parts_;
};

// With relu as a post-operation of the forward primitive, if `relu`.
dnnl::primitive_attr WeightedAttributes(bool relu);

// From the primitives' descriptors; none for what is not wanted.
template <typename F, typename D, typename W>
std::unique_ptr<Kernel> MakeWeighted(const CpuContext& context, const WeightedPlan& given,
                                     const typename F::primitive_desc& f,
                                     const std::optional<typename D::primitive_desc>& d,
                                     const std::optional<typename W::primitive_desc>& w) {
  const bool bias = given.b.get_size() > 0;
  WeightedKernel::Parts parts = {.bias = bias, .relu = given.relu};
  Arena forward;
  parts.forward.emplace(context, DnnlPrimitive::Make<F>(context, f, &forward));
  parts.forward->Input(DNNL_ARG_SRC, given.x, f.src_desc(), &forward);
  parts.forward->Input(DNNL_ARG_WEIGHTS, given.w, f.weights_desc(), &forward);
  if (bias) parts.forward->Input(DNNL_ARG_BIAS, given.b, f.bias_desc(), &forward);
  parts.forward->Output(DNNL_ARG_DST, given.y, f.dst_desc(), &forward);
  Arena both;
  if (given.relu) parts.masked = both.Take(given.output.bytes);
  DnnlDesc dy = given.y;
  if (d && w && given.y != d->diff_dst_desc() && d->diff_dst_desc() == w->diff_dst_desc()) {
    dy = d->diff_dst_desc();
    parts.relay_dy.emplace(context, given.y, dy, &both);
    parts.relaid_dy = both.Take(dy.get_size());
  }
  // They run one after the other and may use the same memory.
  Arena data = both, weights = both;
  if (d) {
    parts.data.emplace(context, DnnlPrimitive::Make<D>(context, *d, &data));
    parts.data->Input(DNNL_ARG_DIFF_DST, dy, d->diff_dst_desc(), &data);
    parts.data->Input(DNNL_ARG_WEIGHTS, given.w, d->weights_desc(), &data);
    parts.data->Output(DNNL_ARG_DIFF_SRC, given.x, d->diff_src_desc(), &data);
  }
  if (w) {
    parts.weights.emplace(context, DnnlPrimitive::Make<W>(context, *w, &weights));
    parts.weights->Input(DNNL_ARG_SRC, given.x, w->src_desc(), &weights);
    parts.weights->Input(DNNL_ARG_DIFF_DST, dy, w->diff_dst_desc(), &weights);
    parts.weights->Output(DNNL_ARG_DIFF_WEIGHTS, given.w, w->diff_weights_desc(), &weights);
    if (bias) parts.weights->Output(DNNL_ARG_DIFF_BIAS, given.b, w->diff_bias_desc(), &weights);
  }
  KernelPlan plan = {.outputs = {given.output},
                     .forward_scratch_bytes = forward.bytes(),
                     .backward_scratch_bytes = w ? std::max(data.bytes(), weights.bytes()) : 0,
                     .backward_reads_input = {true},
                     .backward_reads_output = {given.relu}};
  return std::make_unique<WeightedKernel>(std::move(plan), context, std::move(parts));
}

}  // namespace soapstone::compute
