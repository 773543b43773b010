// Products of row-major matrices, by cuBLAS, whose own are column-major.
#pragma once

#include <cstdint>

#include "compute/cuda/device_context.h"

namespace soapstone::compute {

// C [m, n] = A [m, k] · B [k, n], `batch` times.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;
};

// A factor in memory. `transposed`: its rows there are the columns of what is meant.
struct GemmFactor {
  const float* data = nullptr;
  int64_t row_stride = 0;  // elements from one row in memory to the next
  bool transposed = false;
  int64_t batch_stride = 0;  // elements from one matrix of the batch to the next
};
struct GemmResult {
  float* data = nullptr;
  int64_t row_stride = 0;
  int64_t batch_stride = 0;
  bool add = false;  // to what is there
};

// Fatal where cuBLAS fails. Rounds factors as the options' precision says.
void Gemm(const DeviceContext& context, const GemmShape& shape, const GemmFactor& a,
          const GemmFactor& b, const GemmResult& c);

}  // namespace soapstone::compute
