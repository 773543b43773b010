// A kernel of one input, one output and no parameters that is a oneDNN primitive each way: pooling,
// activations, response normalisation.
#pragma once

#include <optional>
#include <utility>

#include "compute/cpu/context.h"
#include "compute/cpu/primitive.h"

namespace soapstone::compute {

// What Backward is given besides the gradients, and a workspace, are those that the plan names.
class UnaryKernel final : public CpuKernel {
 public:
  // backward: empty where no gradient is wanted.
  UnaryKernel(KernelPlan plan, const CpuContext& context, DnnlPrimitive forward,
              std::optional<DnnlPrimitive> backward)
      : CpuKernel(std::move(plan), context),
        forward_(std::move(forward)),
        backward_(std::move(backward)) {}

 protected:
  void RunForward(const ForwardArgs& args) override {
    if (plan().saved_bytes > 0) forward_.Set(DNNL_ARG_WORKSPACE, args.saved);
    forward_.Run({{DNNL_ARG_SRC, args.inputs[0]}, {DNNL_ARG_DST, args.outputs[0]}}, args.scratch);
  }
  void RunBackward(const BackwardArgs& args) override {
    if (!backward_ || args.input_grads[0] == nullptr) return;
    if (plan().saved_bytes > 0) backward_->Set(DNNL_ARG_WORKSPACE, args.saved);
    if (plan().backward_reads_input[0]) backward_->Set(DNNL_ARG_SRC, args.inputs[0]);
    if (plan().backward_reads_output[0]) backward_->Set(DNNL_ARG_DST, args.outputs[0]);
    backward_->Run(
        {{DNNL_ARG_DIFF_DST, args.output_grads[0]}, {DNNL_ARG_DIFF_SRC, args.input_grads[0]}},
        args.scratch);
  }

 private:
  DnnlPrimitive forward_;
  std::optional<DnnlPrimitive> backward_;
};

}  // namespace soapstone::compute
