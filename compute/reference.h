// Plain loops for every operator: what each kernel must compute, readable against its formula.
// Used by tests to check the fast kernels; never by training. Sums are in double.
#pragma once

#include <cstdint>
#include <memory>

#include "compute/kernel.h"
#include "compute/kernel_shapes.h"

namespace soapstone::compute {

std::unique_ptr<Kernel> MakeReferenceLinear(const LinearShape& shape);
std::unique_ptr<Kernel> MakeReferenceConv2d(const Conv2dShape& shape);
std::unique_ptr<Kernel> MakeReferencePool(const PoolShape& shape);
std::unique_ptr<Kernel> MakeReferenceRelu(int64_t elements);

}  // namespace soapstone::compute
