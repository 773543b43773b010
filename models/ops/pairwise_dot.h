// Rules (op_rules.h) of products of all pairs of vectors: shapes, costs, partitions. Definition:
// compute/op.h.
#pragma once

#include "models/ops/op_rules.h"

namespace soapstone::models {

absl::StatusOr<OpShapes> InferShapes(const compute::PairwiseDot& op,
                                     absl::Span<const compute::TensorSpec> inputs);
OpCost CostOf(const compute::PairwiseDot& op, const OpShapes& shapes);
PartitionRule PartitionOf(const compute::PairwiseDot& op, const OpShapes& shapes);

}  // namespace soapstone::models
