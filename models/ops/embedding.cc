#include "models/ops/embedding.h"

#include <cmath>
#include <limits>
#include <utility>

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Embedding& op,
                                     absl::Span<const compute::TensorSpec> inputs) {
  if (inputs.size() != 1) return ShapeError("it takes 1 input, not ", inputs.size());
  if (inputs[0].type != compute::DataType::kInt32) {
    return ShapeError("it takes int32 ids, not float32 ", ShapeText(inputs[0].shape));
  }
  if (inputs[0].shape.empty()) return ShapeError("it takes ids [N, ..], not []");
  SOAP_RETURN_IF_ERROR(CheckCount("rows", op.rows));
  SOAP_RETURN_IF_ERROR(CheckCount("dim", op.dim));
  if (op.rows > std::numeric_limits<int32_t>::max()) {
    return ShapeError("rows must be below 2^31 for int32 ids to name them, not ", op.rows);
  }
  Shape y = inputs[0].shape;
  y.push_back(op.dim);
  OpShapes shapes = {.inputs = {inputs[0]}, .outputs = {Floats(std::move(y))}};
  // Rows of length 1 on average whatever their dimension, so that products of two rows, and of rows
  // with weights of what comes next, neither vanish nor grow with it (at 2,048: 0.022).
  shapes.params = {
      {"weight", {op.rows, op.dim}, InitKind::kNormal, 1 / std::sqrt(static_cast<double>(op.dim))}};
  return shapes;
}

OpCost CostOf(const compute::Embedding& /*op*/, const OpShapes& shapes) {
  // Forward touches the rows named only; the gradient is written whole.
  const int64_t ids = InputBytes(shapes);
  const int64_t rows = OutputBytes(shapes);
  return {.backward_flops = shapes.outputs[0].elements(),
          .forward_bytes = ids + 2 * rows,
          .backward_bytes = ids + rows + ParamBytes(shapes)};
}

PartitionRule PartitionOf(const compute::Embedding& op, const OpShapes& shapes) {
  const Shape& y = shapes.outputs[0].shape;
  const int d = static_cast<int>(y.size()) - 1;
  const int v = d + 1;
  PartitionRule rule = {.dims = DimsOf(y)};
  Rename(&rule.dims.back(), "d", DimKind::kParameter);
  // A part with some of the rows writes zeros for ids of others.
  rule.dims.push_back({.name = "v", .kind = DimKind::kReduction, .extent = op.rows});
  rule.inputs = {AlongEach(y.size() - 1)};
  rule.params = {{Along(v), Along(d)}};
  rule.outputs = {AlongEach(y.size())};
  return rule;
}

}  // namespace soapstone::models
