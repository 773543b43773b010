#include "models/ops/attention.h"

#include <cmath>

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {
namespace {

// Q [N, T, D], K [N, S, D], V [N, S, ..].
absl::Status CheckSequences(absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckInputs(inputs, 3));
  const char* const names[] = {"queries [N, T, D]", "keys [N, S, D]", "values [N, S, E]"};
  for (size_t i = 0; i < 3; ++i) {
    if (inputs[i].shape.size() != 3) {
      return ShapeError("it takes ", names[i], ", not ", ShapeText(inputs[i].shape));
    }
  }
  const Shape& q = inputs[0].shape;
  const Shape& k = inputs[1].shape;
  const Shape& v = inputs[2].shape;
  if (k[0] != q[0] || k[2] != q[2]) {
    return ShapeError("keys ", ShapeText(k), " do not fit queries ", ShapeText(q),
                      ": they differ in samples or features");
  }
  if (v[0] != k[0] || v[1] != k[1]) {
    return ShapeError("values ", ShapeText(v), " do not fit keys ", ShapeText(k),
                      ": there is one value a key");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OpShapes> InferShapes(const compute::MultiHeadAttention& op,
                                     absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckSequences(inputs));
  const Shape& q = inputs[0].shape;
  const Shape& v = inputs[2].shape;
  if (v[2] != q[2]) {
    return ShapeError("values ", ShapeText(v), " do not have the ", q[2], " features of queries");
  }
  SOAP_RETURN_IF_ERROR(CheckCount("heads", op.heads));
  if (q[2] % op.heads != 0) {
    return ShapeError("features ", q[2], " do not divide into heads ", op.heads);
  }
  if (op.causal && q[1] != v[1]) {
    return ShapeError("causal attention needs as many keys as queries, not ", v[1], " and ", q[1]);
  }
  return OpShapes{.inputs = {inputs.begin(), inputs.end()}, .outputs = {inputs[0]}};
}

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

OpCost CostOf(const compute::MultiHeadAttention& op, const OpShapes& shapes) {
  const Shape& q = shapes.inputs[0].shape;
  const int64_t keys = shapes.inputs[1].shape[1];
  const int64_t pairs = op.causal ? Times(q[1], q[1] + 1) / 2 : Times(q[1], keys);
  const int64_t products = Times(4, q[0], pairs, q[2]);
  // Of a score: scale, maximum, exponential, sum, quotient.
  return CostOfProducts(shapes, Plus(products, Times(5, q[0], pairs, op.heads)));
}

PartitionRule PartitionOf(const compute::MultiHeadAttention& op, const OpShapes& shapes) {
  const Shape& q = shapes.inputs[0].shape;
  enum : int { kN, kT, kD, kS };
  PartitionRule rule = {.dims = DimsOf(q)};
  rule.dims[kT].splittable = !op.causal;  // later queries see more keys: no operator as it is
  rule.dims[kD].kind = DimKind::kParameter;
  rule.dims[kD].unit = q[2] / op.heads;
  rule.dims.push_back({.name = "s",
                       .kind = DimKind::kReduction,
                       .extent = shapes.inputs[1].shape[1],
                       .splittable = false});
  const TensorUse keys = {Along(kN), Along(kS), Along(kD)};
  rule.inputs = {AlongEach(3), keys, keys};
  rule.outputs = {AlongEach(3)};
  return rule;
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
