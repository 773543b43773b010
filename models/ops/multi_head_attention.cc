#include "models/ops/multi_head_attention.h"

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

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

}  // namespace soapstone::models
