// Fast CPU kernels, on oneDNN. Made by models/replica, once per operator and number of samples.
// The only file that knows oneDNN is cpu_kernels.cc; its exceptions end there.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "compute/kernel.h"
#include "compute/kernel_shapes.h"

namespace soapstone::compute {

// Each works on plain row-major tensors at any 4-byte alignment. Errors: Internal, with oneDNN's
// message, for a shape that it cannot do or memory that it cannot get.
absl::StatusOr<std::unique_ptr<Kernel>> MakeCpuLinear(const LinearShape& shape);
absl::StatusOr<std::unique_ptr<Kernel>> MakeCpuConv2d(const Conv2dShape& shape);
absl::StatusOr<std::unique_ptr<Kernel>> MakeCpuPool(const PoolShape& shape);
absl::StatusOr<std::unique_ptr<Kernel>> MakeCpuRelu(int64_t elements);

}  // namespace soapstone::compute
