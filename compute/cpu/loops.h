// Element-wise loops over tensors of one format, padding included, divided among the threads.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "compute/cpu/context.h"

namespace soapstone::compute {

// y = max(0, x); y may be x.
void ReluForward(const CpuContext& context, const float* x, float* y, int64_t n);
// dx = y > 0 ? dy : 0; dx may be dy. `y` is what relu gave (or was given).
void ReluBackward(const CpuContext& context, const float* y, const float* dy, float* dx, int64_t n);
// y = x_1 + x_2 + .., in this order, then max(0, ·) if `relu`; y may be x_1.
void AddForward(const CpuContext& context, absl::Span<const float* const> x, bool relu, float* y,
                int64_t n);
// y = a · b; y may be either.
void MultiplyForward(const CpuContext& context, const float* a, const float* b, float* y,
                     int64_t n);
// `pieces` pieces of `length` floats each, `from_stride` floats apart there and `to_stride` here.
struct StridedCopy {
  const float* from = nullptr;
  float* to = nullptr;
  int64_t pieces = 0, length = 0, from_stride = 0, to_stride = 0;
};
void CopyPieces(const CpuContext& context, const StridedCopy& copy);

}  // namespace soapstone::compute
