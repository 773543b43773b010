#include "models/ops/pool.h"

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Pool& op,
                                     absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckInputs(inputs, 1));
  SOAP_RETURN_IF_ERROR(CheckImage(inputs[0]));
  const Shape& x = inputs[0].shape;
  SOAP_RETURN_IF_ERROR(CheckWindow(op.window, x));
  // Else there would be largest elements and means of nothing.
  SOAP_RETURN_IF_ERROR(CheckPaddingWithin(op.window));
  return OpShapes{
      .inputs = {inputs[0]},
      .outputs = {Floats({x[0], x[1], op.window.out_height(x[2]), op.window.out_width(x[3])})}};
}

OpCost CostOf(const compute::Pool& op, const OpShapes& shapes) {
  const int64_t taps = Times(op.window.height, op.window.width);
  const bool max = op.kind == compute::PoolKind::kMax;
  return CostEach(shapes, shapes.outputs[0].elements(), {.forward = taps, .backward = taps},
                  {.inputs = max});
}

PartitionRule PartitionOf(const compute::Pool& op, const OpShapes& shapes) {
  const compute::Window& w = op.window;
  enum : int { kN, kC, kH, kW };
  PartitionRule rule = {.dims = DimsOf(shapes.outputs[0].shape)};
  // Means over what is inside the image need to know where its edges are: a part with another
  // padding above than below would be no pooling operator.
  const bool edges_matter = op.kind == compute::PoolKind::kAverage && !op.count_padding;
  rule.dims[kH].splittable = !(edges_matter && w.pad_h > 0);
  rule.dims[kW].splittable = !(edges_matter && w.pad_w > 0);
  rule.inputs = {{Along(kN), Along(kC),
                  DimUse{.dim = kH, .scale = w.stride_h, .offset = -w.pad_h, .window = w.height},
                  DimUse{.dim = kW, .scale = w.stride_w, .offset = -w.pad_w, .window = w.width}}};
  rule.outputs = {AlongEach(4)};
  return rule;
}

}  // namespace soapstone::models
