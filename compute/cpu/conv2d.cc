#include "compute/cpu/conv2d.h"

#include <optional>

#include "compute/cpu/conv_linear_kernel.h"

namespace soapstone::compute {
namespace {

using ConvForward = dnnl::convolution_forward;
using ConvData = dnnl::convolution_backward_data;
using ConvWeights = dnnl::convolution_backward_weights;

// Winograd would be faster for 3x3, and less exact.
constexpr auto kConvAlgorithm = dnnl::algorithm::convolution_direct;

// [O, C/groups, h, w] as oneDNN has it: [groups, O/groups, C/groups, h, w] where there are several.
std::vector<int64_t> GroupedWeight(const Conv2d& op, const std::vector<int64_t>& w) {
  if (op.groups == 1) return w;
  return {op.groups, w[0] / op.groups, w[1], w[2], w[3]};
}

// All layouts are oneDNN's choice. That of y becomes the output's format.
std::unique_ptr<Kernel> ConvKernel(const Conv2d& op, const KernelRequest& request,
                                   const CpuContext& context) {
  const std::vector<int64_t> weight = GroupedWeight(op, request.params[0].shape);
  // In float32 as in bf16 all results are float32: y, dx, dw.
  const auto factors = context.factor_type();
  const DnnlDesc x = AnyDesc(request.inputs[0].spec.shape, factors);
  const DnnlDesc dx = AnyDesc(request.inputs[0].spec.shape);
  const DnnlDesc w = AnyDesc(weight, factors);
  const DnnlDesc grad_w = AnyDesc(weight);
  const DnnlDesc b = op.bias ? PlainDesc(request.params[1]) : DnnlDesc();
  const DnnlDesc y = AnyDesc(request.outputs[0].shape);
  const DnnlDesc dy = AnyDesc(request.outputs[0].shape, factors);
  const dnnl::memory::dims stride = {op.window.stride_h, op.window.stride_w};
  const dnnl::memory::dims pad = {op.window.pad_h, op.window.pad_w};
  const auto kind =
      request.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  const ConvForward::primitive_desc f(
      ConvForward::desc(kind, kConvAlgorithm, x, w, b, y, stride, pad, pad),
      WeightedAttributes(op.relu), context.engine);
  std::optional<ConvData::primitive_desc> d;
  if (GradWanted(request, 0)) {
    d.emplace(ConvData::desc(kConvAlgorithm, dx, w, dy, stride, pad, pad), UserScratch(),
              context.engine, f);
  }
  std::optional<ConvWeights::primitive_desc> dw;
  if (request.training) {
    dw.emplace(ConvWeights::desc(kConvAlgorithm, x, grad_w, b, dy, stride, pad, pad), UserScratch(),
               context.engine, f);
  }
  const WeightedPlan plan = {.x = DescOf(request.inputs[0]),
                             .w = PlainDesc(weight),
                             .b = b,
                             .y = f.dst_desc(),
                             .output = FormatOf(request.outputs[0], f.dst_desc()),
                             .relu = op.relu};
  return MakeWeighted<ConvForward, ConvData, ConvWeights>(context, plan, f, d, dw);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeConv2d(const Conv2d& op, const KernelRequest& request,
                                                   const CpuContext& context) {
  return GuardedMake(request, context, [&] { return ConvKernel(op, request, context); });
}

}  // namespace soapstone::compute
