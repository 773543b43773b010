#include "models/ops/reshape.h"

#include <numeric>
#include <utility>

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {
namespace {

// Axes of either side that hold the same elements: x[x_begin, x_end) and y[y_begin, y_end).
struct ReshapeGroup {
  size_t x_begin = 0, x_end = 0, y_begin = 0, y_end = 0;
  int64_t elements = 1;
};

// The smallest such groups. Axes of one element are in none.
std::vector<ReshapeGroup> GroupsOf(const Shape& x, const Shape& y) {
  std::vector<ReshapeGroup> groups;
  size_t i = 0;
  size_t j = 0;
  while (true) {
    while (i < x.size() && x[i] == 1) ++i;
    while (j < y.size() && y[j] == 1) ++j;
    if (i == x.size()) return groups;
    ReshapeGroup group = {.x_begin = i, .y_begin = j};
    int64_t of_x = x[i++];
    int64_t of_y = y[j++];
    while (of_x != of_y) {
      if (of_x < of_y) {
        of_x *= x[i++];
      } else {
        of_y *= y[j++];
      }
    }
    group.x_end = i;
    group.y_end = j;
    group.elements = of_x;
    groups.push_back(group);
  }
}

}  // namespace

absl::StatusOr<OpShapes> InferShapes(const compute::Reshape& op,
                                     absl::Span<const compute::TensorSpec> inputs) {
  if (inputs.size() != 1) return ShapeError("it takes 1 input, not ", inputs.size());
  const Shape& x = inputs[0].shape;
  if (x.empty()) return ShapeError("it takes [N, ..], not []");
  SOAP_RETURN_IF_ERROR(CheckElements("the shape", op.shape));
  compute::TensorSpec y = {.type = inputs[0].type, .shape = op.shape};
  const int64_t sample = inputs[0].elements() / x[0];
  if (y.elements() != sample) {
    return ShapeError("the shape ", ShapeText(op.shape), " has ", y.elements(),
                      " elements, a sample of ", ShapeText(x), " has ", sample);
  }
  y.shape.insert(y.shape.begin(), x[0]);
  return OpShapes{.inputs = {inputs[0]}, .outputs = {std::move(y)}};
}

OpCost CostOf(const compute::Reshape& /*op*/, const OpShapes& shapes) {
  (void)shapes;
  return {};  // the same memory under another name
}

PartitionRule PartitionOf(const compute::Reshape& /*op*/, const OpShapes& shapes) {
  const Shape& x = shapes.inputs[0].shape;
  const Shape& y = shapes.outputs[0].shape;
  const Shape of_x(x.begin() + 1, x.end());
  const Shape of_y(y.begin() + 1, y.end());
  PartitionRule rule;
  rule.dims = {{.name = "n", .extent = x[0]}};
  rule.inputs = {TensorUse(x.size())};
  rule.outputs = {TensorUse(y.size())};
  rule.inputs[0][0] = rule.outputs[0][0] = Along(0);
  // A part of a group is contiguous and made of whole steps of the leading axes of both sides, in
  // units of the least common multiple of these steps. The axes behind them stay whole.
  for (const ReshapeGroup& group : GroupsOf(of_x, of_y)) {
    const int64_t x_step = group.elements / of_x[group.x_begin];
    const int64_t y_step = group.elements / of_y[group.y_begin];
    const int64_t unit = std::lcm(x_step, y_step);
    const auto dim = static_cast<int>(rule.dims.size());
    rule.dims.push_back({.name = AxisName(group.y_begin + 1, y.size()),
                         .kind = DimKind::kAttribute,
                         .extent = group.elements / unit});
    rule.inputs[0][group.x_begin + 1] = {
        .dim = dim, .scale = unit / x_step, .window = unit / x_step};
    rule.outputs[0][group.y_begin + 1] = {
        .dim = dim, .scale = unit / y_step, .window = unit / y_step};
  }
  return rule;
}

}  // namespace soapstone::models
