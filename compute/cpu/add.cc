#include "compute/cpu/add.h"

#include <vector>

#include "compute/cpu/aligned_inputs.h"
#include "compute/cpu/loops.h"

namespace soapstone::compute {
namespace {

class AddKernel : public CpuKernel {
 public:
  // `masked`: offset in scratch of what goes to an input in another format, if `relu`.
  AddKernel(KernelPlan plan, const CpuContext& context, bool relu, AlignedInputs inputs,
            size_t masked)
      : CpuKernel(std::move(plan), context),
        relu_(relu),
        inputs_(std::move(inputs)),
        masked_(masked) {}

 protected:
  void RunForward(const ForwardArgs& args) override {
    std::vector<const float*> x(args.inputs.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = inputs_.Get(i, args.inputs[i], args.scratch);
    AddForward(context(), x, relu_, static_cast<float*>(args.outputs[0]), floats());
  }

  // Every input's gradient is the output's, where the output is above 0 if `relu`.
  void RunBackward(const BackwardArgs& args) override {
    if (plan().backward_alias) return;
    const float* dy = static_cast<const float*>(args.output_grads[0]);
    const float* common = relu_ ? nullptr : dy;  // what all get; with relu the first to be written
    // The last first: input 0's gradient may lie where the output's does.
    for (size_t i = args.input_grads.size(); i-- > 0;) {
      float* dx = static_cast<float*>(args.input_grads[i]);
      if (dx == nullptr) continue;
      const bool aligned = inputs_.is_aligned(i);
      if (common == nullptr) {
        float* to = aligned ? dx : At<float>(args.scratch, masked_);
        ReluBackward(context(), static_cast<const float*>(args.outputs[0]), dy, to, floats());
        common = to;
      }
      if (!aligned) {
        inputs_.PutBack(i, common, dx, args.scratch);
      } else if (dx != common) {
        AddForward(context(), {common}, false, dx, floats());
      }
    }
  }

 private:
  int64_t floats() const { return static_cast<int64_t>(plan().outputs[0].bytes / sizeof(float)); }

  const bool relu_;
  AlignedInputs inputs_;
  const size_t masked_;
};

std::unique_ptr<Kernel> MakeAddKernel(const Add& op, const KernelRequest& request,
                                      const CpuContext& context) {
  const Format aligned = AlignedFormat(request.inputs);
  Arena scratch;
  AlignedInputs inputs(request.inputs, aligned, context, &scratch);
  bool all_aligned = true;
  for (size_t i = 0; i < request.inputs.size(); ++i) all_aligned &= inputs.is_aligned(i);
  const size_t masked = op.relu && !all_aligned ? scratch.Take(aligned.bytes) : 0;
  KernelPlan plan = {.outputs = {FormatOf(request.outputs[0], DescOf(aligned))},
                     .forward_scratch_bytes = scratch.bytes(),
                     .backward_scratch_bytes = scratch.bytes(),
                     .backward_reads_input = std::vector<bool>(request.inputs.size(), false),
                     .backward_reads_output = {op.relu},
                     .forward_in_place = inputs.is_aligned(0),
                     .backward_in_place = op.relu && inputs.is_aligned(0),
                     .backward_alias = !op.relu && all_aligned};
  return std::make_unique<AddKernel>(std::move(plan), context, op.relu, std::move(inputs), masked);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeAdd(const Add& op, const KernelRequest& request,
                                                const CpuContext& context) {
  return GuardedMake(request, context, [&] { return MakeAddKernel(op, request, context); });
}

}  // namespace soapstone::compute
