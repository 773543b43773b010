#include "models/ops/normalize_by_moments.h"

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/batch_norm.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::NormalizeByMoments& op,
                                     absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckInputs(inputs, 2));
  const compute::BatchNorm whole = {
      .epsilon = op.epsilon, .momentum = op.momentum, .relu = op.relu};
  SOAP_ASSIGN_OR_RETURN(OpShapes shapes, InferShapes(whole, inputs.first(1)));
  const Shape wanted = {static_cast<int64_t>(op.counts.size()), inputs[0].shape[1], 2};
  if (inputs[1] != Floats(wanted)) {
    return ShapeError("it takes moments ", ShapeText(wanted), ", not ", ShapeText(inputs[1].shape));
  }
  shapes.inputs.push_back(inputs[1]);
  return shapes;
}

OpCost CostOf(const compute::NormalizeByMoments& /*op*/, const OpShapes& shapes) {
  // Forward: x·a + b. Backward: Σ dy 1, Σ dy·x̂ 4, dy·a 1.
  return CostEach(shapes, shapes.inputs[0].elements(), {.forward = 2, .backward = 6},
                  {.inputs = true});
}

PartitionRule PartitionOf(const compute::NormalizeByMoments& /*op*/, const OpShapes& shapes) {
  PartitionRule rule = ElementwiseRule(shapes.inputs[0].shape, 1);
  rule.dims[1].kind = DimKind::kParameter;
  rule.inputs.push_back({All(), Along(1), All()});
  rule.params.assign(shapes.params.size(), {Along(1)});
  return rule;
}

}  // namespace soapstone::models
