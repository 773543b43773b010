#include "compute/cpu/activation.h"

#include <optional>

#include "compute/cpu/formats.h"
#include "compute/cpu/loops.h"
#include "compute/cpu/unary_kernel.h"

namespace soapstone::compute {
namespace {

using EltwiseForward = dnnl::eltwise_forward;
using EltwiseBackward = dnnl::eltwise_backward;

int64_t FloatsOf(const Format& format) {
  return static_cast<int64_t>(format.bytes / sizeof(float));
}

// Padding's zeros stay zeros.
class ReluKernel : public CpuKernel {
 public:
  using CpuKernel::CpuKernel;

 protected:
  void RunForward(const ForwardArgs& args) override {
    ReluForward(context(), static_cast<const float*>(args.inputs[0]),
                static_cast<float*>(args.outputs[0]), FloatsOf(plan().outputs[0]));
  }
  void RunBackward(const BackwardArgs& args) override {
    if (args.input_grads[0] == nullptr) return;
    ReluBackward(context(), static_cast<const float*>(args.outputs[0]),
                 static_cast<const float*>(args.output_grads[0]),
                 static_cast<float*>(args.input_grads[0]), FloatsOf(plan().outputs[0]));
  }
};

// The others are oneDNN's; what their Backward reads is the output, but for gelu.
dnnl::algorithm EltwiseOf(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kRelu:
      return dnnl::algorithm::eltwise_relu;
    case ActivationKind::kTanh:
      return dnnl::algorithm::eltwise_tanh_use_dst_for_bwd;
    case ActivationKind::kSigmoid:
      return dnnl::algorithm::eltwise_logistic_use_dst_for_bwd;
    case ActivationKind::kGelu:
      return dnnl::algorithm::eltwise_gelu_erf;
  }
  return dnnl::algorithm::undef;
}

std::unique_ptr<Kernel> MakeEltwiseKernel(const Activation& op, const KernelRequest& request,
                                          const CpuContext& context) {
  const bool reads_input = op.kind == ActivationKind::kGelu;
  const DnnlDesc x = DescOf(request.inputs[0]);
  const auto algorithm = EltwiseOf(op.kind);
  const auto kind =
      request.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  const EltwiseForward::primitive_desc f(EltwiseForward::desc(kind, algorithm, x, 0.0f),
                                         UserScratch(), context.engine);
  Arena forward_scratch, backward_scratch;
  DnnlPrimitive forward = DnnlPrimitive::Make<EltwiseForward>(context, f, &forward_scratch);
  forward.Bind(DNNL_ARG_SRC, x);
  forward.Bind(DNNL_ARG_DST, f.dst_desc());
  std::optional<DnnlPrimitive> backward;
  if (GradWanted(request, 0)) {
    const EltwiseBackward::primitive_desc b(EltwiseBackward::desc(algorithm, x, x, 0.0f),
                                            UserScratch(), context.engine, f);
    backward = DnnlPrimitive::Make<EltwiseBackward>(context, b, &backward_scratch);
    backward->Bind(reads_input ? DNNL_ARG_SRC : DNNL_ARG_DST, x);
    backward->Bind(DNNL_ARG_DIFF_DST, x);
    backward->Bind(DNNL_ARG_DIFF_SRC, x);
  }
  KernelPlan plan = {.outputs = {FormatOf(request.outputs[0], x)},
                     .forward_scratch_bytes = forward_scratch.bytes(),
                     .backward_scratch_bytes = backward_scratch.bytes(),
                     .backward_reads_input = {reads_input},
                     .backward_reads_output = {!reads_input},
                     .forward_in_place = !(reads_input && request.training),
                     .backward_in_place = true};
  return std::make_unique<UnaryKernel>(std::move(plan), context, std::move(forward),
                                       std::move(backward));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeActivation(const Activation& op,
                                                       const KernelRequest& request,
                                                       const CpuContext& context) {
  if (op.kind != ActivationKind::kRelu) {
    return GuardedMake(request, context, [&] { return MakeEltwiseKernel(op, request, context); });
  }
  KernelPlan plan = {.outputs = {FormatOf(request.outputs[0], DescOf(request.inputs[0]))},
                     .backward_reads_input = {false},
                     .backward_reads_output = {true},
                     .forward_in_place = true,
                     .backward_in_place = true};
  return std::make_unique<ReluKernel>(std::move(plan), context);
}

}  // namespace soapstone::compute
