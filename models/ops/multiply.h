// Rules (op_rules.h) of products, element by element: shapes, costs, partitions. Definition:
// compute/op.h.
#pragma once

#include "models/ops/op_rules.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Multiply& op,
                                     absl::Span<const compute::TensorSpec> inputs);
OpCost CostOf(const compute::Multiply& op, const OpShapes& shapes);
PartitionRule PartitionOf(const compute::Multiply& op, const OpShapes& shapes);

}  // namespace soapstone::models
