#include "models/ops/conv2d.h"

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/linear.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Conv2d& op,
                                     absl::Span<const compute::TensorSpec> inputs) {
  SOAP_RETURN_IF_ERROR(CheckInputs(inputs, 1));
  SOAP_RETURN_IF_ERROR(CheckImage(inputs[0]));
  const Shape& x = inputs[0].shape;
  const compute::Window& w = op.window;
  SOAP_RETURN_IF_ERROR(CheckWindow(w, x));
  SOAP_RETURN_IF_ERROR(CheckCount("channels", op.channels));
  SOAP_RETURN_IF_ERROR(CheckCount("groups", op.groups));
  for (int64_t channels : {x[1], op.channels}) {
    if (channels % op.groups != 0) {
      return ShapeError("channels ", channels, " do not divide into groups of ", op.groups);
    }
  }
  const Shape weight = {op.channels, x[1] / op.groups, w.height, w.width};
  SOAP_RETURN_IF_ERROR(CheckElements("weight", weight));
  OpShapes shapes = {.inputs = {inputs[0]}};
  shapes.params.push_back(
      {"weight", weight, InitKind::kUniform, InitialScale(weight, op.groups, op.relu)});
  if (op.bias) shapes.params.push_back({"bias", {op.channels}});
  shapes.outputs = {Floats({x[0], op.channels, w.out_height(x[2]), w.out_width(x[3])})};
  return shapes;
}

OpCost CostOf(const compute::Conv2d& /*op*/, const OpShapes& shapes) {
  const Shape& weight = shapes.params[0].shape;
  const int64_t taps = weight[1] * weight[2] * weight[3];
  return CostOfProducts(shapes, Times(2, taps, shapes.outputs[0].elements()));
}

PartitionRule PartitionOf(const compute::Conv2d& op, const OpShapes& shapes) {
  const Shape& y = shapes.outputs[0].shape;
  const int64_t group_inputs = shapes.params[0].shape[1];
  const int64_t group_outputs = op.channels / op.groups;
  const compute::Window& w = op.window;
  const bool grouped = op.groups > 1;
  enum : int { kN, kO, kH, kW, kI };
  PartitionRule rule = {.dims = DimsOf(y)};
  // Whole groups, so that a part is a convolution with groups again.
  rule.dims[kO] = {.name = "o",
                   .kind = DimKind::kParameter,
                   .extent = op.channels,
                   .unit = grouped ? group_outputs : 1};
  rule.dims.push_back(
      {.name = "i", .kind = DimKind::kReduction, .extent = group_inputs, .splittable = !grouped});
  const DimUse of_group = {
      .dim = kO, .scale = group_inputs, .window = group_inputs, .per = group_outputs};
  rule.inputs = {{Along(kN), grouped ? of_group : Along(kI),
                  DimUse{.dim = kH, .scale = w.stride_h, .offset = -w.pad_h, .window = w.height},
                  DimUse{.dim = kW, .scale = w.stride_w, .offset = -w.pad_w, .window = w.width}}};
  rule.params = {{Along(kO), Along(kI), All(), All()}};
  if (op.bias) rule.params.push_back({Along(kO)});
  rule.outputs = {AlongEach(4)};
  return rule;
}

}  // namespace soapstone::models
