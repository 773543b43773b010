#include "models/ops/softmax_cross_entropy.h"

#include "base/status_macros.h"
#include "models/ops/axes.h"
#include "models/ops/cost_terms.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::SoftmaxCrossEntropy& /*op*/,
                                     absl::Span<const compute::TensorSpec> inputs) {
  if (inputs.size() != 2) {
    return ShapeError("it takes 2 inputs, logits and labels, not ", inputs.size());
  }
  SOAP_RETURN_IF_ERROR(CheckFloat(inputs[0]));
  const Shape& logits = inputs[0].shape;
  if (logits.size() < 2 || logits.back() < 2) {
    return ShapeError("it takes [N, .., V] with at least two logits, not ", ShapeText(logits));
  }
  if (inputs[1].type != compute::DataType::kInt32) {
    return ShapeError("it takes int32 labels, not float32 ", ShapeText(inputs[1].shape));
  }
  const Shape places(logits.begin(), logits.end() - 1);
  if (inputs[1].shape != places) {
    return ShapeError("labels must be ", ShapeText(places), " for logits ", ShapeText(logits),
                      ", not ", ShapeText(inputs[1].shape));
  }
  return OpShapes{.inputs = {inputs[0], inputs[1]},
                  .outputs = {Floats({logits[0]}), Floats({logits[0]})}};
}

OpCost CostOf(const compute::SoftmaxCrossEntropy& /*op*/, const OpShapes& shapes) {
  // Forward: maximum, exponential, sum. Backward: quotient and difference.
  const compute::TensorSpec& logits = shapes.inputs[0];
  return {.forward_flops = Times(3, logits.elements()),
          .backward_flops = Times(2, logits.elements()),
          .forward_bytes = ForwardBytes(shapes),
          .backward_bytes = InputBytes(shapes) + logits.bytes()};
}

PartitionRule PartitionOf(const compute::SoftmaxCrossEntropy& /*op*/, const OpShapes& shapes) {
  const Shape& logits = shapes.inputs[0].shape;
  PartitionRule rule = {.dims = DimsOf(logits)};
  // A sample's loss is over the number of its labels, and a label's over all of its logits.
  for (size_t i = 1; i < logits.size(); ++i) {
    rule.dims[i].kind = DimKind::kReduction;
    rule.dims[i].splittable = false;
  }
  Rename(&rule.dims.back(), "v", DimKind::kReduction);
  rule.inputs = {AlongEach(logits.size()), AlongEach(logits.size() - 1)};
  rule.outputs = {{Along(0)}, {Along(0)}};
  return rule;
}

}  // namespace soapstone::models
