// Rules (op_rules.h) of sums, element by element: shapes, costs, partitions. Definition:
// compute/op.h.
#pragma once

#include "models/ops/op_rules.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Add& op,
                                     absl::Span<const compute::TensorSpec> inputs);
OpCost CostOf(const compute::Add& op, const OpShapes& shapes);
PartitionRule PartitionOf(const compute::Add& op, const OpShapes& shapes);

}  // namespace soapstone::models
