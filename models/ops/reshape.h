// Rules (op_rules.h) of other shapes of the same elements: shapes, costs, partitions. Definition:
// compute/op.h.
#pragma once

#include "models/ops/op_rules.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Reshape& op,
                                     absl::Span<const compute::TensorSpec> inputs);
OpCost CostOf(const compute::Reshape& op, const OpShapes& shapes);
PartitionRule PartitionOf(const compute::Reshape& op, const OpShapes& shapes);

}  // namespace soapstone::models
