#include "models/ops/activation.h"

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {
namespace {

FlopsEach FlopsOf(compute::ActivationKind kind) {
  switch (kind) {
    case compute::ActivationKind::kRelu:
      return {.forward = 1, .backward = 1};
    case compute::ActivationKind::kTanh:  // dx = dy (1 − y²)
      return {.forward = 1, .backward = 3};
    case compute::ActivationKind::kSigmoid:  // dx = dy·y (1 − y)
      return {.forward = 3, .backward = 3};
    case compute::ActivationKind::kGelu:  // x/2 (1 + erf(x/√2)), and with the density beside it
      return {.forward = 5, .backward = 10};
  }
  return {};
}

}  // namespace

absl::StatusOr<OpShapes> InferShapes(const compute::Activation& /*op*/,
                                     absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckInputs(inputs, 1));
  return OpShapes{.inputs = {inputs[0]}, .outputs = {inputs[0]}};
}

OpCost CostOf(const compute::Activation& op, const OpShapes& shapes) {
  // All but gelu's gradients are functions of the output.
  const bool input = op.kind == compute::ActivationKind::kGelu;
  return CostEach(shapes, shapes.inputs[0].elements(), FlopsOf(op.kind),
                  {.inputs = input, .outputs = !input});
}

PartitionRule PartitionOf(const compute::Activation& /*op*/, const OpShapes& shapes) {
  return ElementwiseRule(shapes.inputs[0].shape, 1);
}

}  // namespace soapstone::models
