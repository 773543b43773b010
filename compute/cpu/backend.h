// The CPU backend: oneDNN 2.6, and own loops where it has nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "compute/kernel.h"

namespace soapstone::compute {

// Tensors are float32 between operators always. kBf16: what convolutions and matrix products round
// their factors to (7 bits of mantissa); their sums are float32 (docs/models.md).
enum class CpuPrecision : uint8_t { kFloat32, kBf16 };

struct CpuOptions {
  int threads = 1;  // a kernel's; results depend on it
  CpuPrecision precision = CpuPrecision::kFloat32;
};

// Error (failed precondition): this processor does not multiply in bf16. oneDNN would emulate it,
// slower than float32.
absl::Status CheckCpuPrecision(CpuPrecision precision);

// REQUIRES: CheckCpuPrecision(options.precision) is ok.
std::unique_ptr<Backend> MakeCpuBackend(const CpuOptions& options);

}  // namespace soapstone::compute
