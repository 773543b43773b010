#include "models/ops/concat.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {
namespace {

absl::Status CheckAxis(int64_t axis, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  if (axis >= 1 && axis < rank) return absl::OkStatus();
  return ShapeError("axis ", axis, " is none of ", ShapeText(shape), "'s, or is the batch");
}

// Uses of tensors that lie one behind the other along `axis` of what is iterated over.
std::vector<TensorUse> Pieces(const std::vector<compute::TensorSpec>& tensors, int64_t axis) {
  std::vector<TensorUse> uses;
  int64_t before = 0;
  for (const compute::TensorSpec& tensor : tensors) {
    uses.push_back(AlongEach(tensor.shape.size()));
    uses.back()[static_cast<size_t>(axis)].offset = -before;
    before += tensor.shape[static_cast<size_t>(axis)];
  }
  return uses;
}

}  // namespace

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

OpCost CostOf(const compute::Concat& /*op*/, const OpShapes& shapes) {
  return CostOfMoving(shapes);
}

PartitionRule PartitionOf(const compute::Concat& op, const OpShapes& shapes) {
  const Shape& y = shapes.outputs[0].shape;
  return {.dims = DimsOf(y),
          .inputs = Pieces(shapes.inputs, op.axis),
          .outputs = {AlongEach(y.size())}};
}

OpCost CostOf(const compute::Split& /*op*/, const OpShapes& shapes) { return CostOfMoving(shapes); }

PartitionRule PartitionOf(const compute::Split& op, const OpShapes& shapes) {
  const Shape& x = shapes.inputs[0].shape;
  return {.dims = DimsOf(x),
          .inputs = {AlongEach(x.size())},
          .outputs = Pieces(shapes.outputs, op.axis)};
}

}  // namespace soapstone::models
