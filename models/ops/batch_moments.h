// Rules (op_rules.h) of the moments of a part of a batch: shapes, costs, partitions. Definition:
// compute/op.h. The lowering of strategies makes this operator; no model has it.
#pragma once

#include "models/ops/op_rules.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::BatchMoments& op,
                                     absl::Span<const compute::TensorSpec> inputs);
OpCost CostOf(const compute::BatchMoments& op, const OpShapes& shapes);
PartitionRule PartitionOf(const compute::BatchMoments& op, const OpShapes& shapes);

}  // namespace soapstone::models
