// Rules (op_rules.h) of sums and means over axes: shapes, costs, partitions. Definition:
// compute/op.h.
#pragma once

#include "models/ops/op_rules.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Reduce& op,
                                     absl::Span<const compute::TensorSpec> inputs);
OpCost CostOf(const compute::Reduce& op, const OpShapes& shapes);
PartitionRule PartitionOf(const compute::Reduce& op, const OpShapes& shapes);

}  // namespace soapstone::models
