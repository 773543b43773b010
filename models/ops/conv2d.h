// Rules (op_rules.h) of convolution: shapes, costs, partitions. Definition: compute/op.h.
#pragma once

#include "models/ops/op_rules.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Conv2d& op,
                                     absl::Span<const compute::TensorSpec> inputs);
OpCost CostOf(const compute::Conv2d& op, const OpShapes& shapes);
PartitionRule PartitionOf(const compute::Conv2d& op, const OpShapes& shapes);

}  // namespace soapstone::models
