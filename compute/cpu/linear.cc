#include "compute/cpu/linear.h"

#include <optional>

#include "compute/cpu/conv_linear_kernel.h"
#include "compute/cpu/gemm_primitive.h"
#include "compute/cpu/plain_inputs.h"

namespace soapstone::compute {
namespace {

using LinearForward = dnnl::inner_product_forward;
using LinearData = dnnl::inner_product_backward_data;
using LinearWeights = dnnl::inner_product_backward_weights;

// In float32 the weight stays as it is: to pack it for the call costs more than the faster product
// gains, for 2 rows (4 times the whole) to 2048 (a tenth; forward alone breaks even at 1024). In
// bf16 it is copied anyway, and into the layout that oneDNN likes best.
std::unique_ptr<Kernel> LinearKernel(const Linear& op, const KernelRequest& request,
                                     const CpuContext& context) {
  const int64_t inputs = request.params[0].shape[1];
  const int64_t rows = request.inputs[0].spec.elements() / inputs;
  const DnnlDesc x = PlainDesc({rows, inputs});
  const DnnlDesc w = PlainDesc({op.outputs, inputs});
  const DnnlDesc b = op.bias ? PlainDesc(request.params[1]) : DnnlDesc();
  const DnnlDesc y = PlainDesc({rows, op.outputs});
  const auto type = FactorType(context, rows, inputs, op.outputs);
  const auto factor = [type](const DnnlDesc& plain) {
    return type == dnnl::memory::data_type::f32 ? plain : AnyDesc(plain.dims(), type);
  };
  const auto kind =
      request.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  const LinearForward::primitive_desc f(LinearForward::desc(kind, factor(x), factor(w), b, y),
                                        WeightedAttributes(op.relu), context.engine);
  std::optional<LinearData::primitive_desc> d;
  if (GradWanted(request, 0)) {
    d.emplace(LinearData::desc(x, factor(w), factor(y)), UserScratch(), context.engine, f);
  }
  std::optional<LinearWeights::primitive_desc> dw;
  if (request.training) {
    dw.emplace(LinearWeights::desc(factor(x), w, b, factor(y)), UserScratch(), context.engine, f);
  }
  const WeightedPlan plan = {
      .x = x, .w = w, .b = b, .y = y, .output = PlainFormat(request.outputs[0]), .relu = op.relu};
  return MakeWeighted<LinearForward, LinearData, LinearWeights>(context, plan, f, d, dw);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeLinear(const Linear& op, const KernelRequest& request,
                                                   const CpuContext& context) {
  return WithPlainInputs(request, context, [&](const KernelRequest& plain) {
    return GuardedMake(plain, context, [&] { return LinearKernel(op, plain, context); });
  });
}

}  // namespace soapstone::compute
