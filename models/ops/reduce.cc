#include "models/ops/reduce.h"

#include <utility>

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Reduce& op,
                                     absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckInputs(inputs, 1));
  const Shape& x = inputs[0].shape;
  if (op.axes.empty()) return ShapeError("it needs an axis to reduce");
  int64_t before = 0;  // the batch's: not to be reduced
  for (int64_t axis : op.axes) {
    if (axis <= before || axis >= static_cast<int64_t>(x.size())) {
      return ShapeError("axes ", ShapeText(op.axes), " must ascend from 1 on within ",
                        ShapeText(x));
    }
    before = axis;
  }
  Shape y;
  size_t next = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (next < op.axes.size() && op.axes[next] == static_cast<int64_t>(i)) {
      ++next;
    } else {
      y.push_back(x[i]);
    }
  }
  return OpShapes{.inputs = {inputs[0]}, .outputs = {Floats(std::move(y))}};
}

OpCost CostOf(const compute::Reduce& op, const OpShapes& shapes) {
  OpCost cost = CostOfMoving(shapes);
  cost.forward_flops = shapes.inputs[0].elements();
  if (op.kind == compute::ReduceKind::kMean) cost.backward_flops = shapes.outputs[0].elements();
  return cost;
}

PartitionRule PartitionOf(const compute::Reduce& op, const OpShapes& shapes) {
  const Shape& x = shapes.inputs[0].shape;
  PartitionRule rule = {.dims = DimsOf(x), .inputs = {AlongEach(x.size())}};
  for (int64_t axis : op.axes) rule.dims[static_cast<size_t>(axis)].kind = DimKind::kReduction;
  rule.outputs.emplace_back();
  for (size_t i = 0; i < x.size(); ++i) {
    if (rule.dims[i].kind != DimKind::kReduction) {
      rule.outputs[0].push_back(Along(static_cast<int>(i)));
    }
  }
  return rule;
}

}  // namespace soapstone::models
