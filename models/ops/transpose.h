// Rules (op_rules.h) of other orders of the same elements: shapes, costs, partitions. Definition:
// compute/op.h.
#pragma once

#include "models/ops/op_rules.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Transpose& op,
                                     absl::Span<const compute::TensorSpec> inputs);
OpCost CostOf(const compute::Transpose& op, const OpShapes& shapes);
PartitionRule PartitionOf(const compute::Transpose& op, const OpShapes& shapes);

}  // namespace soapstone::models
