// C = α·op(A)·op(B) + β·C of row-major matrices, by oneDNN's sgemm: with the calling thread's
// number of OpenMP threads, or with one inside of ParallelFor.
#pragma once

#include <cstdint>

#include "dnnl.hpp"
#include "glog/logging.h"

namespace soapstone::compute {

// A matrix as it lies in memory: its rows are `stride` elements apart. `transposed`: its transpose
// is what is multiplied.
struct GemmOperand {
  const float* data = nullptr;
  int64_t stride = 0;
  bool transposed = false;
};
// C [m, n] from op(A) [m, k] and op(B) [k, n]
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
};
struct GemmResult {
  float* data = nullptr;
  int64_t stride = 0;
  float alpha = 1;
  float beta = 0;
};

inline void Gemm(const GemmShape& shape, const GemmOperand& a, const GemmOperand& b,
                 const GemmResult& c) {
  const auto status =
      dnnl::sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', shape.m, shape.n, shape.k,
                  c.alpha, a.data, a.stride, b.data, b.stride, c.beta, c.data, c.stride);
  CHECK(status == dnnl::status::success) << "sgemm";
}

}  // namespace soapstone::compute
