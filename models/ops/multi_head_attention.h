// Rules (op_rules.h) of attention in heads: shapes, costs, partitions. Definition: compute/op.h.
#pragma once

#include "models/ops/op_rules.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::MultiHeadAttention& op,
                                     absl::Span<const compute::TensorSpec> inputs);
OpCost CostOf(const compute::MultiHeadAttention& op, const OpShapes& shapes);
PartitionRule PartitionOf(const compute::MultiHeadAttention& op, const OpShapes& shapes);

}  // namespace soapstone::models
