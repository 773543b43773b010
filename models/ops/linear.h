// Rules (op_rules.h) of X·Wᵀ + b: shapes, costs, partitions. Definition: compute/op.h.
#pragma once

#include "models/ops/op_rules.h"

namespace soapstone::models {

// Of the uniform initial values of a weight [outputs, inputs/groups, ..]: √(6/fan_in) if `relu`
// halves what follows (He et al. 2015), else √(6/(fan_in + fan_out)) (Glorot and Bengio 2010).
double InitialScale(const std::vector<int64_t>& weight, int64_t groups, bool relu);

absl::StatusOr<OpShapes> InferShapes(const compute::Linear& op,
                                     absl::Span<const compute::TensorSpec> inputs);
OpCost CostOf(const compute::Linear& op, const OpShapes& shapes);
PartitionRule PartitionOf(const compute::Linear& op, const OpShapes& shapes);

}  // namespace soapstone::models
