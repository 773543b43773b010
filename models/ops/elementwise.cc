#include "models/ops/elementwise.h"

#include <cmath>

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {
namespace {

absl::Status CheckAlike(absl::Span<const compute::TensorSpec> inputs) {
  for (const compute::TensorSpec& input : inputs) {
    SOAP_RETURN_IF_ERROR(CheckFloat(input));
    if (input.shape != inputs[0].shape) {
      return ShapeError("its inputs must have one shape, not ", ShapeText(inputs[0].shape), " and ",
                        ShapeText(input.shape));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OpShapes> InferShapes(const compute::Add& /*op*/,
                                     absl::Span<const compute::TensorSpec> inputs) {
  if (inputs.size() < 2) return ShapeError("it takes 2 inputs or more, not ", inputs.size());
  SOAP_RETURN_IF_ERROR(CheckAlike(inputs));
  return OpShapes{.inputs = {inputs.begin(), inputs.end()}, .outputs = {inputs[0]}};
}

absl::StatusOr<OpShapes> InferShapes(const compute::Multiply& /*op*/,
                                     absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckInputs(inputs, 2));
  SOAP_RETURN_IF_ERROR(CheckAlike(inputs));
  return OpShapes{.inputs = {inputs.begin(), inputs.end()}, .outputs = {inputs[0]}};
}

absl::StatusOr<OpShapes> InferShapes(const compute::AddParameter& /*op*/,
                                     absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckInputs(inputs, 1));
  const Shape& x = inputs[0].shape;
  if (x.size() < 2) return ShapeError("it takes [N, ..], not ", ShapeText(x));
  OpShapes shapes = {.inputs = {inputs[0]}, .outputs = {inputs[0]}};
  // As large as the rows of an embedding, to which positions are added.
  shapes.params = {{"weight", Shape(x.begin() + 1, x.end()), InitKind::kNormal,
                    1 / std::sqrt(static_cast<double>(x.back()))}};
  return shapes;
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

OpCost CostOf(const compute::Multiply& /*op*/, const OpShapes& shapes) {
  return CostEach(shapes, shapes.outputs[0].elements(), {.forward = 1, .backward = 2},
                  {.inputs = true});
}

PartitionRule PartitionOf(const compute::Multiply& /*op*/, const OpShapes& shapes) {
  return ElementwiseRule(shapes.outputs[0].shape, 2);
}

OpCost CostOf(const compute::AddParameter& /*op*/, const OpShapes& shapes) {
  OpCost cost = CostEach(shapes, shapes.outputs[0].elements(), {.forward = 1, .backward = 1}, {});
  cost.backward_bytes -= ParamBytes(shapes);  // it is not read again
  return cost;
}

PartitionRule PartitionOf(const compute::AddParameter& /*op*/, const OpShapes& shapes) {
  PartitionRule rule = ElementwiseRule(shapes.outputs[0].shape, 1);
  rule.params.emplace_back();
  for (size_t i = 1; i < rule.dims.size(); ++i) {
    rule.dims[i].kind = DimKind::kParameter;
    rule.params[0].push_back(Along(static_cast<int>(i)));
  }
  return rule;
}

}  // namespace soapstone::models
