#include "models/ops/batch_moments.h"

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {
absl::StatusOr<OpShapes> InferShapes(const compute::BatchMoments& op,
                                     absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckInputs(inputs, 1));
  const Shape& x = inputs[0].shape;
  if (x.size() < 2) return ShapeError("it takes [N, C, ..], not ", ShapeText(x));
  if (op.row < 0 || op.row >= op.rows) return ShapeError("row ", op.row, " of ", op.rows);
  return OpShapes{.inputs = {inputs[0]}, .outputs = {Floats({op.rows, x[1], 2})}};
}

OpCost CostOf(const compute::BatchMoments& /*op*/, const OpShapes& shapes) {
  // Forward: mean 1, variance 3. Backward: a + b·(x − mean).
  return CostEach(shapes, shapes.inputs[0].elements(), {.forward = 4, .backward = 3},
                  {.inputs = true});
}

PartitionRule PartitionOf(const compute::BatchMoments& /*op*/, const OpShapes& shapes) {
  PartitionRule rule = ElementwiseRule(shapes.inputs[0].shape, 1);
  for (IterationDim& dim : rule.dims) dim.kind = DimKind::kReduction;
  rule.dims[1].kind = DimKind::kParameter;
  rule.outputs = {{All(), Along(1), All()}};
  return rule;
}

}  // namespace soapstone::models
