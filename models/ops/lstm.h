// Rules (op_rules.h) of long short-term memory: shapes, costs, partitions. Definition:
// compute/op.h.
#pragma once

#include "models/ops/op_rules.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Lstm& op,
                                     absl::Span<const compute::TensorSpec> inputs);
OpCost CostOf(const compute::Lstm& op, const OpShapes& shapes);
PartitionRule PartitionOf(const compute::Lstm& op, const OpShapes& shapes);

}  // namespace soapstone::models
