#include "models/ops/concat.h"

#include <utility>

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Concat& op,
                                     absl::Span<const compute::TensorSpec> inputs) {
  if (inputs.empty()) return ShapeError("it takes 1 input or more, not 0");
  Shape y = inputs[0].shape;
  SOAP_RETURN_IF_ERROR(CheckAxis(op.axis, y));
  int64_t& side = y[static_cast<size_t>(op.axis)];
  side = 0;
  for (const compute::TensorSpec& input : inputs) {
    SOAP_RETURN_IF_ERROR(CheckFloat(input));
    Shape expected = input.shape;
    const int64_t part = expected.size() == y.size() ? expected[static_cast<size_t>(op.axis)] : 0;
    if (part > 0) expected[static_cast<size_t>(op.axis)] = side;
    if (expected != y) {
      return ShapeError("its inputs may differ along axis ", op.axis, " only, not as ",
                        ShapeText(inputs[0].shape), " and ", ShapeText(input.shape));
    }
    side = Plus(side, part);
  }
  return OpShapes{.inputs = {inputs.begin(), inputs.end()}, .outputs = {Floats(std::move(y))}};
}

OpCost CostOf(const compute::Concat& /*op*/, const OpShapes& shapes) {
  return CostOfMoving(shapes);
}

PartitionRule PartitionOf(const compute::Concat& op, const OpShapes& shapes) {
  const Shape& y = shapes.outputs[0].shape;
  return {.dims = DimsOf(y),
          .inputs = Pieces(shapes.inputs, op.axis),
          .outputs = {AlongEach(y.size())}};
}

}  // namespace soapstone::models
