// Rules (op_rules.h) of joining along an axis: shapes, costs, partitions. Definition: compute/op.h.
#pragma once

#include "models/ops/op_rules.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Concat& op,
                                     absl::Span<const compute::TensorSpec> inputs);
OpCost CostOf(const compute::Concat& op, const OpShapes& shapes);
PartitionRule PartitionOf(const compute::Concat& op, const OpShapes& shapes);

}  // namespace soapstone::models
