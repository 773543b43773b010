#include "models/ops/transpose.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Transpose& op,
                                     absl::Span<const compute::TensorSpec> inputs) {
  if (inputs.size() != 1) return ShapeError("it takes 1 input, not ", inputs.size());
  const Shape& x = inputs[0].shape;
  std::vector<int64_t> sorted = op.permutation;
  std::sort(sorted.begin(), sorted.end());
  bool permutes = sorted.size() == x.size() && !x.empty();
  for (size_t i = 0; permutes && i < x.size(); ++i) permutes = sorted[i] == static_cast<int64_t>(i);
  if (!permutes) {
    return ShapeError(ShapeText(op.permutation), " is no permutation of the axes of ",
                      ShapeText(x));
  }
  if (op.permutation[0] != 0) {
    return ShapeError("the batch must stay first, not go as in ", ShapeText(op.permutation));
  }
  compute::TensorSpec y = {.type = inputs[0].type};
  for (int64_t axis : op.permutation) y.shape.push_back(x[static_cast<size_t>(axis)]);
  return OpShapes{.inputs = {inputs[0]}, .outputs = {std::move(y)}};
}

OpCost CostOf(const compute::Transpose& /*op*/, const OpShapes& shapes) {
  return CostOfMoving(shapes);
}

PartitionRule PartitionOf(const compute::Transpose& op, const OpShapes& shapes) {
  PartitionRule rule = ElementwiseRule(shapes.outputs[0].shape, 1);
  for (size_t i = 0; i < op.permutation.size(); ++i) {
    rule.inputs[0][static_cast<size_t>(op.permutation[i])] = Along(static_cast<int>(i));
  }
  return rule;
}

}  // namespace soapstone::models
