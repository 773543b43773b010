#include "models/ops/add.h"

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Add& /*op*/,
                                     absl::Span<const compute::TensorSpec> inputs) {
  if (inputs.size() < 2) return ShapeError("it takes 2 inputs or more, not ", inputs.size());
  SOAP_RETURN_IF_ERROR(CheckAlike(inputs));
  return OpShapes{.inputs = {inputs.begin(), inputs.end()}, .outputs = {inputs[0]}};
}

OpCost CostOf(const compute::Add& op, const OpShapes& shapes) {
  OpCost cost = {.forward_bytes = ForwardBytes(shapes)};
  const int64_t elements = shapes.outputs[0].elements();
  cost.forward_flops = Times(elements, static_cast<int64_t>(shapes.inputs.size()) - 1);
  if (op.relu) {  // else the output's gradient is that of each input
    cost.forward_flops = Plus(cost.forward_flops, elements);
    cost.backward_flops = elements;
    cost.backward_bytes = 3 * shapes.outputs[0].bytes();
  }
  return cost;
}

PartitionRule PartitionOf(const compute::Add& /*op*/, const OpShapes& shapes) {
  return ElementwiseRule(shapes.outputs[0].shape, shapes.inputs.size());
}

}  // namespace soapstone::models
