#include "models/ops/additive_attention.h"

#include <cmath>

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::AdditiveAttention& /*op*/,
                                     absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckSequences(inputs));
  const Shape& q = inputs[0].shape;
  OpShapes shapes = {.inputs = {inputs.begin(), inputs.end()}};
  shapes.outputs = {Floats({q[0], q[1], inputs[2].shape[2]})};
  // Scores of D terms of size up to 1 each: about 1/√3 in size.
  shapes.params = {{"v", {q[2]}, InitKind::kUniform, 1 / std::sqrt(static_cast<double>(q[2]))}};
  return shapes;
}

OpCost CostOf(const compute::AdditiveAttention& /*op*/, const OpShapes& shapes) {
  const Shape& q = shapes.inputs[0].shape;
  const Shape& v = shapes.inputs[2].shape;
  const int64_t pairs = Times(q[0], q[1], v[1]);
  // Of a pair: 4 a feature for the score, 5 for its softmax, 2 a feature of the value.
  return CostOfProducts(shapes, Times(pairs, 4 * q[2] + 5 + 2 * v[2]));
}

PartitionRule PartitionOf(const compute::AdditiveAttention& /*op*/, const OpShapes& shapes) {
  const Shape& q = shapes.inputs[0].shape;
  const Shape& v = shapes.inputs[2].shape;
  enum : int { kN, kT, kE, kS, kD };
  PartitionRule rule = {.dims = DimsOf(shapes.outputs[0].shape)};
  Rename(&rule.dims[kE], "e", DimKind::kAttribute);  // each part computes all scores again
  rule.dims.push_back(
      {.name = "s", .kind = DimKind::kReduction, .extent = v[1], .splittable = false});
  rule.dims.push_back(
      {.name = "d", .kind = DimKind::kReduction, .extent = q[2], .splittable = false});
  rule.inputs = {{Along(kN), Along(kT), Along(kD)},
                 {Along(kN), Along(kS), Along(kD)},
                 {Along(kN), Along(kS), Along(kE)}};
  rule.params = {{Along(kD)}};
  rule.outputs = {AlongEach(3)};
  return rule;
}

}  // namespace soapstone::models
