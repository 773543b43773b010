// Rules (op_rules.h) of batch normalization by the moments of parts: shapes, costs, partitions.
// Definition: compute/op.h. The lowering of strategies makes this operator; no model has it.
#pragma once

#include "models/ops/op_rules.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::NormalizeByMoments& op,
                                     absl::Span<const compute::TensorSpec> inputs);
OpCost CostOf(const compute::NormalizeByMoments& op, const OpShapes& shapes);
PartitionRule PartitionOf(const compute::NormalizeByMoments& op, const OpShapes& shapes);

}  // namespace soapstone::models
