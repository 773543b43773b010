// Rules (op_rules.h) of sums with a parameter: shapes, costs, partitions. Definition: compute/op.h.
#pragma once

#include "models/ops/op_rules.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::AddParameter& op,
                                     absl::Span<const compute::TensorSpec> inputs);
OpCost CostOf(const compute::AddParameter& op, const OpShapes& shapes);
PartitionRule PartitionOf(const compute::AddParameter& op, const OpShapes& shapes);

}  // namespace soapstone::models
