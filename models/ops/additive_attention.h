// Rules (op_rules.h) of additive attention: shapes, costs, partitions. Definition: compute/op.h.
#pragma once

#include "models/ops/op_rules.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::AdditiveAttention& op,
                                     absl::Span<const compute::TensorSpec> inputs);
OpCost CostOf(const compute::AdditiveAttention& op, const OpShapes& shapes);
PartitionRule PartitionOf(const compute::AdditiveAttention& op, const OpShapes& shapes);

}  // namespace soapstone::models
