#include "models/ops/add_parameter.h"

#include <cmath>

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

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
