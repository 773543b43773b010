// Indices over the elements of a tensor in another order, which Transpose and Reduce are made of.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "compute/cuda/kernels.h"
#include "compute/kernel.h"

namespace soapstone::compute {

// Of a row-major tensor: how far apart the elements along each dimension are.
std::vector<int64_t> StridesOf(const std::vector<int64_t>& shape);
// Behind those that are there.
void AddDimension(int64_t size, int64_t stride, StridedIndex* index);
// Error where the input has more dimensions than an index.
absl::Status CheckDims(const KernelRequest& r);

}  // namespace soapstone::compute
