#include "models/ops/layer_norm.h"

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::LayerNorm& op,
                                     absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckInputs(inputs, 1));
  const Shape& x = inputs[0].shape;
  if (x.size() < 2) return ShapeError("it takes [N, .., D], not ", ShapeText(x));
  if (!(op.epsilon > 0)) return ShapeError("epsilon must be above 0, not ", op.epsilon);
  OpShapes shapes = {.inputs = {inputs[0]}, .outputs = {inputs[0]}};
  shapes.params = {{"weight", {x.back()}, InitKind::kOne}, {"bias", {x.back()}, InitKind::kZero}};
  return shapes;
}

OpCost CostOf(const compute::LayerNorm& /*op*/, const OpShapes& shapes) {
  // Forward: mean 1, variance 3, x̂ 2, γ and β 2. Backward: dβ 1, x̂ 2, dγ 2, the two sums of a row
  // 4, dx 4.
  return CostEach(shapes, shapes.inputs[0].elements(), {.forward = 8, .backward = 13},
                  {.inputs = true});
}

PartitionRule PartitionOf(const compute::LayerNorm& /*op*/, const OpShapes& shapes) {
  PartitionRule rule = ElementwiseRule(shapes.inputs[0].shape, 1);
  rule.dims.back().splittable = false;  // mean and variance are over it
  rule.params.assign(2, {Along(static_cast<int>(rule.dims.size()) - 1)});
  return rule;
}

}  // namespace soapstone::models
