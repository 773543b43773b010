#include "compute/cpu/local_response_norm.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compute/cpu/formats.h"
#include "compute/cpu/unary_kernel.h"

namespace soapstone::compute {
namespace {

using LrnForward = dnnl::lrn_forward;
using LrnBackward = dnnl::lrn_backward;

constexpr auto kAcross = dnnl::algorithm::lrn_across_channels;

// Keeps the input's layout. oneDNN divides α by the size as the operator does.
std::unique_ptr<Kernel> MakeLrnKernel(const LocalResponseNorm& op, const KernelRequest& request,
                                      const CpuContext& context) {
  const DnnlDesc x = DescOf(request.inputs[0]);
  const float alpha = static_cast<float>(op.alpha);
  const float beta = static_cast<float>(op.beta);
  const float k = static_cast<float>(op.k);
  const auto kind =
      request.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  const LrnForward::primitive_desc f(LrnForward::desc(kind, kAcross, x, op.size, alpha, beta, k),
                                     UserScratch(), context.engine);
  Arena forward_scratch, backward_scratch;
  DnnlPrimitive forward = DnnlPrimitive::Make<LrnForward>(context, f, &forward_scratch);
  forward.Bind(DNNL_ARG_SRC, x);
  forward.Bind(DNNL_ARG_DST, f.dst_desc());
  forward.Bind(DNNL_ARG_WORKSPACE, f.workspace_desc());
  std::optional<DnnlPrimitive> backward;
  if (GradWanted(request, 0)) {
    const LrnBackward::primitive_desc b(
        LrnBackward::desc(kAcross, x, f.dst_desc(), op.size, alpha, beta, k), UserScratch(),
        context.engine, f);
    backward = DnnlPrimitive::Make<LrnBackward>(context, b, &backward_scratch);
    backward->Bind(DNNL_ARG_SRC, x);
    backward->Bind(DNNL_ARG_DIFF_DST, f.dst_desc());
    backward->Bind(DNNL_ARG_DIFF_SRC, b.diff_src_desc());
    backward->Bind(DNNL_ARG_WORKSPACE, f.workspace_desc());
  }
  KernelPlan plan = {.outputs = {FormatOf(request.outputs[0], f.dst_desc())},
                     .saved_bytes = f.workspace_desc().get_size(),
                     .forward_scratch_bytes = forward_scratch.bytes(),
                     .backward_scratch_bytes = backward_scratch.bytes(),
                     .backward_reads_input = {true},
                     .backward_reads_output = {false}};
  return std::make_unique<UnaryKernel>(std::move(plan), context, std::move(forward),
                                       std::move(backward));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeLocalResponseNorm(const LocalResponseNorm& op,
                                                              const KernelRequest& request,
                                                              const CpuContext& context) {
  if (op.size % 2 == 0) {
    return absl::UnimplementedError(
        absl::StrCat(request.name, ": local_response_norm of size ", op.size,
                     " is not there on cpu; take an odd size, whose window has a centre"));
  }
  return GuardedMake(request, context, [&] { return MakeLrnKernel(op, request, context); });
}

}  // namespace soapstone::compute
