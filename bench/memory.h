// What one thread does with memory: the limits that a shard can come near. (Triad:
// apps/profile/roofline.h)
#pragma once

#include <cstddef>

#include "compute/optimizer.h"

namespace soapstone::bench {

// Bytes copied a second, from one block of `bytes` to another, again and again, in GB/s.
double MemcpyRate(size_t bytes);

// Bytes of g added a second by x[i] += g[i], `blocks` times x and g of `bytes` each, one after the
// other, in GB/s. Compiled for the widest vectors that the machine has.
double FloatAddRate(size_t bytes, size_t blocks);

// Bytes read and written a second by an optimizer's update of a parameter of `bytes`, by the bytes
// that it must read and write: 12 an element for sgd, and 8 for each moment; in GB/s.
double ApplyRate(const compute::OptimizerSpec& optimizer, size_t bytes);

// Bytes a second in which it looks for what is not finite (base/finite.h), as a worker does at its
// gradients, in GB/s.
double LookRate(size_t bytes);

}  // namespace soapstone::bench
