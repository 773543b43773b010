#include "models/ops/linear.h"

#include <cmath>
#include <utility>

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

double InitialScale(const Shape& weight, int64_t groups, bool relu) {
  int64_t elements = 1;
  for (int64_t d : weight) elements *= d;
  const auto all = static_cast<double>(elements);
  const double fan_in = all / static_cast<double>(weight[0]);
  const double fan_out = all / static_cast<double>(weight[1]) / static_cast<double>(groups);
  return std::sqrt(6.0 / (relu ? fan_in : fan_in + fan_out));
}

absl::StatusOr<OpShapes> InferShapes(const compute::Linear& op,
                                     absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckInputs(inputs, 1));
  const Shape& x = inputs[0].shape;
  if (x.size() < 2) return ShapeError("it takes [N, .., D], not ", ShapeText(x));
  SOAP_RETURN_IF_ERROR(CheckCount("outputs", op.outputs));
  const Shape weight = {op.outputs, x.back()};
  SOAP_RETURN_IF_ERROR(CheckElements("weight", weight));
  OpShapes shapes = {.inputs = {inputs[0]}};
  shapes.params.push_back({"weight", weight, InitKind::kUniform, InitialScale(weight, 1, op.relu)});
  if (op.bias) shapes.params.push_back({"bias", {op.outputs}});
  Shape y = x;
  y.back() = op.outputs;
  shapes.outputs = {Floats(std::move(y))};
  return shapes;
}

OpCost CostOf(const compute::Linear& /*op*/, const OpShapes& shapes) {
  const int64_t taps = shapes.inputs[0].shape.back();
  return CostOfProducts(shapes, Times(2, taps, shapes.outputs[0].elements()));
}

PartitionRule PartitionOf(const compute::Linear& op, const OpShapes& shapes) {
  const Shape& y = shapes.outputs[0].shape;
  const int o = static_cast<int>(y.size()) - 1;
  const int i = o + 1;
  PartitionRule rule = {.dims = DimsOf(y)};
  Rename(&rule.dims.back(), "o", DimKind::kParameter);
  rule.dims.push_back(
      {.name = "i", .kind = DimKind::kReduction, .extent = shapes.inputs[0].shape.back()});
  rule.inputs = {AlongEach(y.size())};
  rule.inputs[0].back() = Along(i);
  rule.params = {{Along(o), Along(i)}};
  if (op.bias) rule.params.push_back({Along(o)});
  rule.outputs = {AlongEach(y.size())};
  return rule;
}

}  // namespace soapstone::models
