#include "models/ops/batch_norm.h"

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::BatchNorm& op,
                                     absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckInputs(inputs, 1));
  const Shape& x = inputs[0].shape;
  if (x.size() < 2) return ShapeError("it takes [N, C, ..], not ", ShapeText(x));
  if (!(op.epsilon > 0)) return ShapeError("epsilon must be above 0, not ", op.epsilon);
  if (!(op.momentum > 0 && op.momentum <= 1)) {
    return ShapeError("momentum must be in (0, 1], not ", op.momentum);
  }
  OpShapes shapes = {.inputs = {inputs[0]}, .outputs = {inputs[0]}};
  shapes.params = {{"weight", {x[1]}, InitKind::kOne},
                   {"bias", {x[1]}, InitKind::kZero},
                   {"running_mean", {x[1]}, InitKind::kZero, 0, op.momentum},
                   {"running_var", {x[1]}, InitKind::kOne, 0, op.momentum}};
  return shapes;
}

OpCost CostOf(const compute::BatchNorm& /*op*/, const OpShapes& shapes) {
  // Forward: mean 1, variance 3, x·a + b 2. Backward: Σ dy 1, Σ dy·x̂ 4, dx 4.
  return CostEach(shapes, shapes.inputs[0].elements(), {.forward = 6, .backward = 9},
                  {.inputs = true});
}

PartitionRule PartitionOf(const compute::BatchNorm& /*op*/, const OpShapes& shapes) {
  PartitionRule rule = ElementwiseRule(shapes.inputs[0].shape, 1);
  for (IterationDim& dim : rule.dims) dim.exchanges_statistics = true;
  rule.dims[1].kind = DimKind::kParameter;
  rule.dims[1].exchanges_statistics = false;
  rule.params.assign(shapes.params.size(), {Along(1)});
  return rule;
}

}  // namespace soapstone::models
