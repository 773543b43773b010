#include "models/ops/pairwise_dot.h"

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::PairwiseDot& /*op*/,
                                     absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckInputs(inputs, 1));
  const Shape& x = inputs[0].shape;
  if (x.size() != 3 || x[1] < 2) {
    return ShapeError("it takes two vectors or more, [N, F, D], not ", ShapeText(x));
  }
  return OpShapes{.inputs = {inputs[0]}, .outputs = {Floats({x[0], Times(x[1], x[1] - 1) / 2})}};
}

OpCost CostOf(const compute::PairwiseDot& /*op*/, const OpShapes& shapes) {
  const int64_t pairs = shapes.outputs[0].elements();
  return CostOfProducts(shapes, Times(2, pairs, shapes.inputs[0].shape[2]));
}

PartitionRule PartitionOf(const compute::PairwiseDot& /*op*/, const OpShapes& shapes) {
  enum : int { kN, kPair, kD };
  PartitionRule rule = {.dims = DimsOf(shapes.outputs[0].shape)};
  Rename(&rule.dims[kPair], "p", DimKind::kAttribute);
  rule.dims[kPair].splittable = false;  // some of the pairs: no operator
  rule.dims.push_back(
      {.name = "d", .kind = DimKind::kReduction, .extent = shapes.inputs[0].shape[2]});
  rule.inputs = {{Along(kN), All(), Along(kD)}};
  rule.outputs = {AlongEach(2)};
  return rule;
}

}  // namespace soapstone::models
