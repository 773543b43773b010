#include "models/ops/multiply.h"

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Multiply& /*op*/,
                                     absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckInputs(inputs, 2));
  SOAP_RETURN_IF_ERROR(CheckAlike(inputs));
  return OpShapes{.inputs = {inputs.begin(), inputs.end()}, .outputs = {inputs[0]}};
}

OpCost CostOf(const compute::Multiply& /*op*/, const OpShapes& shapes) {
  return CostEach(shapes, shapes.outputs[0].elements(), {.forward = 1, .backward = 2},
                  {.inputs = true});
}

PartitionRule PartitionOf(const compute::Multiply& /*op*/, const OpShapes& shapes) {
  return ElementwiseRule(shapes.outputs[0].shape, 2);
}

}  // namespace soapstone::models
