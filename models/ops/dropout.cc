#include "models/ops/dropout.h"

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Dropout& op,
                                     absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckInputs(inputs, 1));
  if (!(op.rate >= 0 && op.rate < 1)) {
    return ShapeError("rate must be in [0, 1), not ", op.rate);
  }
  return OpShapes{.inputs = {inputs[0]}, .outputs = {inputs[0]}};
}

OpCost CostOf(const compute::Dropout& /*op*/, const OpShapes& shapes) {
  return CostEach(shapes, shapes.inputs[0].elements(), {.forward = 1, .backward = 1}, {});
}

PartitionRule PartitionOf(const compute::Dropout& /*op*/, const OpShapes& shapes) {
  PartitionRule rule = ElementwiseRule(shapes.inputs[0].shape, 1);
  // What is kept is chosen by an element's number within its sample, which a part would count anew.
  for (size_t i = 1; i < rule.dims.size(); ++i) rule.dims[i].splittable = false;
  return rule;
}

}  // namespace soapstone::models
