// Rules (op_rules.h) of rows of a table: shapes, costs, partitions. Definition: compute/op.h.
#pragma once

#include "models/ops/op_rules.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Embedding& op,
                                     absl::Span<const compute::TensorSpec> inputs);
OpCost CostOf(const compute::Embedding& op, const OpShapes& shapes);
PartitionRule PartitionOf(const compute::Embedding& op, const OpShapes& shapes);

}  // namespace soapstone::models
