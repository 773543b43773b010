#include "compute/cpu/reshape.h"

#include "compute/cpu/formats.h"

namespace soapstone::compute {
namespace {

// From another layout to plain, which the output is under its own shape.
class ReshapeKernel : public CpuKernel {
 public:
  ReshapeKernel(KernelPlan plan, const CpuContext& context, DnnlReorder forward,
                DnnlReorder backward)
      : CpuKernel(std::move(plan), context),
        forward_(std::move(forward)),
        backward_(std::move(backward)) {}

 protected:
  void RunForward(const ForwardArgs& args) override {
    forward_.Run(args.inputs[0], args.outputs[0], args.scratch);
  }
  void RunBackward(const BackwardArgs& args) override {
    if (args.input_grads[0] == nullptr) return;
    backward_.Run(args.output_grads[0], args.input_grads[0], args.scratch);
  }

 private:
  DnnlReorder forward_, backward_;
};

class AliasKernel : public Kernel {
 public:
  using Kernel::Kernel;
  void Forward(const ForwardArgs&) override {}
  void Backward(const BackwardArgs&) override {}
};

// Images of one place, whose channels fill their blocks, lie as plain ones do.
bool LiesPlain(const Format& x) {
  if (x.plain()) return true;
  const std::vector<int64_t>& shape = x.spec.shape;
  return shape.size() == 4 && shape[2] * shape[3] == 1 &&
         x.bytes == static_cast<size_t>(x.spec.bytes());
}

std::unique_ptr<Kernel> MakeReshapeKernel(const KernelRequest& request, const CpuContext& context) {
  const Format& x = request.inputs[0];
  KernelPlan plan = {.outputs = {PlainFormat(request.outputs[0])},
                     .backward_reads_input = {false},
                     .backward_reads_output = {false}};
  if (LiesPlain(x)) {
    plan.alias = true;
    plan.backward_alias = true;
    return std::make_unique<AliasKernel>(std::move(plan));
  }
  const DnnlDesc own = DescOf(x), plain = PlainDesc(x.spec);
  Arena forward_scratch, backward_scratch;
  DnnlReorder forward(context, own, plain, &forward_scratch);
  DnnlReorder backward(context, plain, own, &backward_scratch);
  plan.forward_scratch_bytes = forward_scratch.bytes();
  plan.backward_scratch_bytes = backward_scratch.bytes();
  return std::make_unique<ReshapeKernel>(std::move(plan), context, std::move(forward),
                                         std::move(backward));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeReshape(const Reshape&, const KernelRequest& request,
                                                    const CpuContext& context) {
  return GuardedMake(request, context, [&] { return MakeReshapeKernel(request, context); });
}

}  // namespace soapstone::compute
