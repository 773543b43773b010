#include "models/ops/local_response_norm.h"

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::LocalResponseNorm& op,
                                     absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckInputs(inputs, 1));
  SOAP_RETURN_IF_ERROR(CheckImage(inputs[0]));
  if (op.size < 1) return ShapeError("size must be at least 1, not ", op.size);
  // So that what is raised to the power of β stays positive.
  if (!(op.k > 0)) return ShapeError("k must be above 0, not ", op.k);
  if (!(op.alpha >= 0)) return ShapeError("alpha must be at least 0, not ", op.alpha);
  return OpShapes{.inputs = {inputs[0]}, .outputs = {inputs[0]}};
}

OpCost CostOf(const compute::LocalResponseNorm& op, const OpShapes& shapes) {
  // Forward: a window of squares, its scale, power and quotient. Backward: two such windows.
  const FlopsEach flops = {.forward = 2 * op.size + 4, .backward = 4 * op.size + 6};
  return CostEach(shapes, shapes.inputs[0].elements(), flops, {.inputs = true});
}

PartitionRule PartitionOf(const compute::LocalResponseNorm& /*op*/, const OpShapes& shapes) {
  PartitionRule rule = ElementwiseRule(shapes.inputs[0].shape, 1);
  // A part of the channels would compute its neighbours' outputs too.
  rule.dims[1].splittable = false;
  return rule;
}

}  // namespace soapstone::models
