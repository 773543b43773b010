#include "compute/cpu/pool.h"

#include <optional>

#include "compute/cpu/formats.h"
#include "compute/cpu/unary_kernel.h"

namespace soapstone::compute {
namespace {

using PoolForward = dnnl::pooling_forward;
using PoolBackward = dnnl::pooling_backward;

dnnl::algorithm AlgorithmOf(const Pool& op) {
  if (op.kind == PoolKind::kMax) return dnnl::algorithm::pooling_max;
  return op.count_padding ? dnnl::algorithm::pooling_avg_include_padding
                          : dnnl::algorithm::pooling_avg_exclude_padding;
}

// The output has the input's layout. Max pooling saves where each maximum was.
std::unique_ptr<Kernel> MakePoolKernel(const Pool& op, const KernelRequest& request,
                                       const CpuContext& context) {
  const auto algorithm = AlgorithmOf(op);
  const DnnlDesc x = DescOf(request.inputs[0]);
  const dnnl::memory::dims stride = {op.window.stride_h, op.window.stride_w};
  const dnnl::memory::dims size = {op.window.height, op.window.width};
  const dnnl::memory::dims pad = {op.window.pad_h, op.window.pad_w};
  const auto kind =
      request.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  const PoolForward::primitive_desc f(
      PoolForward::desc(kind, algorithm, x, AnyDesc(request.outputs[0].shape), stride, size, pad,
                        pad),
      UserScratch(), context.engine);
  Arena forward_scratch, backward_scratch;
  DnnlPrimitive forward = DnnlPrimitive::Make<PoolForward>(context, f, &forward_scratch);
  forward.Bind(DNNL_ARG_SRC, x);
  forward.Bind(DNNL_ARG_DST, f.dst_desc());
  forward.Bind(DNNL_ARG_WORKSPACE, f.workspace_desc());
  std::optional<DnnlPrimitive> backward;
  if (GradWanted(request, 0)) {
    const PoolBackward::primitive_desc b(
        PoolBackward::desc(algorithm, x, f.dst_desc(), stride, size, pad, pad), UserScratch(),
        context.engine, f);
    backward = DnnlPrimitive::Make<PoolBackward>(context, b, &backward_scratch);
    backward->Bind(DNNL_ARG_DIFF_DST, f.dst_desc());
    backward->Bind(DNNL_ARG_DIFF_SRC, x);
    backward->Bind(DNNL_ARG_WORKSPACE, f.workspace_desc());
  }
  KernelPlan plan = {.outputs = {FormatOf(request.outputs[0], f.dst_desc())},
                     .saved_bytes = f.workspace_desc().get_size(),
                     .forward_scratch_bytes = forward_scratch.bytes(),
                     .backward_scratch_bytes = backward_scratch.bytes(),
                     .backward_reads_input = {false},
                     .backward_reads_output = {false}};
  return std::make_unique<UnaryKernel>(std::move(plan), context, std::move(forward),
                                       std::move(backward));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakePool(const Pool& op, const KernelRequest& request,
                                                 const CpuContext& context) {
  return GuardedMake(request, context, [&] { return MakePoolKernel(op, request, context); });
}

}  // namespace soapstone::compute
