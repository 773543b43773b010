#include "compute/cpu/multiply.h"

#include "compute/cpu/aligned_inputs.h"
#include "compute/cpu/loops.h"

namespace soapstone::compute {
namespace {

// Both inputs in one format; a gradient that goes to another is first computed into `relaid`.
class MultiplyKernel : public CpuKernel {
 public:
  MultiplyKernel(KernelPlan plan, const CpuContext& context, AlignedInputs inputs, size_t relaid)
      : CpuKernel(std::move(plan), context), inputs_(std::move(inputs)), relaid_(relaid) {}

 protected:
  void RunForward(const ForwardArgs& args) override {
    const float* a = inputs_.Get(0, args.inputs[0], args.scratch);
    const float* b = inputs_.Get(1, args.inputs[1], args.scratch);
    MultiplyForward(context(), a, b, static_cast<float*>(args.outputs[0]), floats());
  }

  // ∂a = ∂y·b, ∂b = ∂y·a. The second first: ∂a may lie where ∂y does.
  void RunBackward(const BackwardArgs& args) override {
    const float* dy = static_cast<const float*>(args.output_grads[0]);
    for (size_t i : {1, 0}) {
      void* dx = args.input_grads[i];
      if (dx == nullptr) continue;
      const float* other = inputs_.Get(1 - i, args.inputs[1 - i], args.scratch);
      const bool aligned = inputs_.is_aligned(i);
      float* to = aligned ? static_cast<float*>(dx) : At<float>(args.scratch, relaid_);
      MultiplyForward(context(), dy, other, to, floats());
      if (!aligned) inputs_.PutBack(i, to, dx, args.scratch);
    }
  }

 private:
  int64_t floats() const { return static_cast<int64_t>(plan().outputs[0].bytes / sizeof(float)); }

  AlignedInputs inputs_;
  const size_t relaid_;
};

std::unique_ptr<Kernel> MakeMultiplyKernel(const KernelRequest& request,
                                           const CpuContext& context) {
  const Format aligned = AlignedFormat(request.inputs);
  Arena scratch;
  AlignedInputs inputs(request.inputs, aligned, context, &scratch);
  const size_t relaid =
      scratch.Take(inputs.is_aligned(0) && inputs.is_aligned(1) ? 0 : aligned.bytes);
  KernelPlan plan = {.outputs = {FormatOf(request.outputs[0], DescOf(aligned))},
                     .forward_scratch_bytes = scratch.bytes(),
                     .backward_scratch_bytes = scratch.bytes(),
                     .backward_reads_input = {GradWanted(request, 1), GradWanted(request, 0)},
                     .backward_reads_output = {false},
                     // Forward keeps both inputs, where Backward needs them.
                     .forward_in_place = !request.training && inputs.is_aligned(0),
                     .backward_in_place = inputs.is_aligned(0)};
  return std::make_unique<MultiplyKernel>(std::move(plan), context, std::move(inputs), relaid);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeMultiply(const Multiply&, const KernelRequest& request,
                                                     const CpuContext& context) {
  return GuardedMake(request, context, [&] { return MakeMultiplyKernel(request, context); });
}

}  // namespace soapstone::compute
