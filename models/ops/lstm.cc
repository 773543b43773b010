#include "models/ops/lstm.h"

#include <cmath>

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Lstm& op,
                                     absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckInputs(inputs, op.state ? 3 : 1));
  const Shape& x = inputs[0].shape;
  if (x.size() != 3) return ShapeError("it takes [N, T, D], not ", ShapeText(x));
  SOAP_RETURN_IF_ERROR(CheckCount("hidden", op.hidden));
  const Shape state = {x[0], op.hidden};
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i].shape != state) {
      return ShapeError(i == 1 ? "h_0" : "c_0", " must be [N, H] = ", ShapeText(state), ", not ",
                        ShapeText(inputs[i].shape));
    }
  }
  OpShapes shapes = {.inputs = {inputs.begin(), inputs.end()}};
  shapes.outputs = {Floats({x[0], x[1], op.hidden})};
  if (op.state) shapes.outputs.insert(shapes.outputs.end(), 2, Floats(state));
  // PyTorch's: ±1/√H for all, the bias of the forget gate included.
  const double scale = 1 / std::sqrt(static_cast<double>(op.hidden));
  shapes.params = {{"weight_ih", {4 * op.hidden, x[2]}, InitKind::kUniform, scale},
                   {"weight_hh", {4 * op.hidden, op.hidden}, InitKind::kUniform, scale},
                   {"bias", {4 * op.hidden}, InitKind::kUniform, scale}};
  return shapes;
}

OpCost CostOf(const compute::Lstm& op, const OpShapes& shapes) {
  const Shape& x = shapes.inputs[0].shape;
  const int64_t steps = Times(x[0], x[1]);
  const int64_t products = Times(8, op.hidden, x[2] + op.hidden, steps);
  // A unit adds 4 biases, takes 5 functions, multiplies 3 times and adds once.
  return CostOfProducts(shapes, Plus(products, Times(13, op.hidden, steps)));
}

PartitionRule PartitionOf(const compute::Lstm& op, const OpShapes& shapes) {
  const Shape& x = shapes.inputs[0].shape;
  enum : int { kN, kT, kH, kD };
  PartitionRule rule = {.dims = DimsOf({x[0], x[1], op.hidden})};
  rule.dims[kT].splittable = false;                  // chunks of time are operators of their own
  Rename(&rule.dims[kH], "h", DimKind::kParameter);  // a unit with its four gates
  rule.dims.push_back(
      {.name = "d", .kind = DimKind::kReduction, .extent = x[2], .splittable = false});
  const DimUse gates = {.dim = kH, .repeats = 4};
  rule.inputs = {{Along(kN), Along(kT), Along(kD)}};
  rule.params = {{gates, Along(kD)}, {gates, All()}, {gates}};
  rule.outputs = {AlongEach(3)};
  if (op.state) {
    rule.inputs.push_back({Along(kN), All()});  // each unit reads the whole of h
    rule.inputs.push_back({Along(kN), Along(kH)});
    rule.outputs.insert(rule.outputs.end(), 2, {Along(kN), Along(kH)});
  }
  rule.exchanges = x[1] - 1;
  return rule;
}

}  // namespace soapstone::models
