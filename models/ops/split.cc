#include "models/ops/split.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Split& op,
                                     absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckInputs(inputs, 1));
  const Shape& x = inputs[0].shape;
  SOAP_RETURN_IF_ERROR(CheckAxis(op.axis, x));
  OpShapes shapes = {.inputs = {inputs[0]}};
  int64_t sum = 0;
  for (int64_t size : op.sizes) {
    SOAP_RETURN_IF_ERROR(CheckCount("a size", size));
    sum = Plus(sum, size);
    Shape y = x;
    y[static_cast<size_t>(op.axis)] = size;
    shapes.outputs.push_back(Floats(std::move(y)));
  }
  if (sum != x[static_cast<size_t>(op.axis)]) {
    return ShapeError("sizes ", absl::StrJoin(op.sizes, " + "), " are not the ",
                      x[static_cast<size_t>(op.axis)], " of axis ", op.axis, " of ", ShapeText(x));
  }
  return shapes;
}

OpCost CostOf(const compute::Split& /*op*/, const OpShapes& shapes) { return CostOfMoving(shapes); }

PartitionRule PartitionOf(const compute::Split& op, const OpShapes& shapes) {
  const Shape& x = shapes.inputs[0].shape;
  return {.dims = DimsOf(x),
          .inputs = {AlongEach(x.size())},
          .outputs = Pieces(shapes.outputs, op.axis)};
}

}  // namespace soapstone::models
