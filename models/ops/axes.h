// Terms of which the operators' partition rules are put together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compute/op.h"
#include "models/ops/partition.h"

namespace soapstone::models {

inline DimUse All() { return {}; }
inline DimUse Along(int dim) { return {.dim = dim}; }

// What each axis of an output of this rank is called: "n", "c", "h", "w"; "n", "t", "d"; "n", "d".
std::string AxisName(size_t axis, size_t rank);

// One dimension an axis, the first of samples, the others attributes.
std::vector<IterationDim> DimsOf(const std::vector<int64_t>& shape);
void Rename(IterationDim* dim, std::string name, DimKind kind);
// Axis i of the tensor along dimension i.
TensorUse AlongEach(size_t rank);
// Uses of tensors that lie one behind the other along `axis` of what is iterated over.
std::vector<TensorUse> Pieces(const std::vector<compute::TensorSpec>& tensors, int64_t axis);
// All inputs and the output have the shape of the dimensions.
PartitionRule ElementwiseRule(const std::vector<int64_t>& shape, size_t inputs);

}  // namespace soapstone::models
