// Rules (op_rules.h) of dropout: shapes, costs, partitions. Definition: compute/op.h.
#pragma once

#include "models/ops/op_rules.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::Dropout& op,
                                     absl::Span<const compute::TensorSpec> inputs);
OpCost CostOf(const compute::Dropout& op, const OpShapes& shapes);
PartitionRule PartitionOf(const compute::Dropout& op, const OpShapes& shapes);

}  // namespace soapstone::models
