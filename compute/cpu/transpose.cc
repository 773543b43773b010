#include "compute/cpu/transpose.h"

#include <vector>

#include "compute/cpu/formats.h"

namespace soapstone::compute {
namespace {

// oneDNN's reorder: the input seen with its axes permuted, to row-major; and back.
class CpuTranspose : public CpuKernel {
 public:
  struct Parts {
    KernelPlan plan;
    DnnlReorder forward, backward;
  };
  CpuTranspose(Parts parts, const CpuContext& context)
      : CpuKernel(parts.plan, context), p_(std::move(parts)) {}

 protected:
  void RunForward(const ForwardArgs& a) override {
    p_.forward.Run(a.inputs[0], a.outputs[0], a.scratch);
  }
  void RunBackward(const BackwardArgs& a) override {
    if (a.input_grads[0] == nullptr) return;
    p_.backward.Run(a.output_grads[0], a.input_grads[0], a.scratch);
  }

 private:
  Parts p_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeTranspose(const Transpose& op,
                                                      const KernelRequest& request,
                                                      const CpuContext& context) {
  return GuardedMake(request, context, [&]() -> std::unique_ptr<Kernel> {
    // oneDNN wants to know where each axis goes, the operator says where each comes from.
    std::vector<int> to(op.permutation.size());
    for (size_t i = 0; i < to.size(); ++i) {
      to[static_cast<size_t>(op.permutation[i])] = static_cast<int>(i);
    }
    const DnnlDesc seen = DescOf(request.inputs[0]).permute_axes(to);
    const DnnlDesc plain = PlainDesc(request.outputs[0]);
    Arena forward, backward;
    DnnlReorder forth(context, seen, plain, &forward);
    DnnlReorder back(context, plain, seen, &backward);
    KernelPlan plan = {.outputs = {PlainFormat(request.outputs[0])},
                       .forward_scratch_bytes = forward.bytes(),
                       .backward_scratch_bytes = backward.bytes(),
                       .backward_reads_input = {false},
                       .backward_reads_output = {false}};
    return std::make_unique<CpuTranspose>(
        CpuTranspose::Parts{std::move(plan), std::move(forth), std::move(back)}, context);
  });
}

}  // namespace soapstone::compute
