#include "compute/cpu/column_sum.h"

#include "base/vectors.h"

namespace soapstone::compute {

SOAPSTONE_EACH_VECTOR_WIDTH void SumColumns(int64_t rows, int64_t columns, int64_t begin,
                                            int64_t end, const float* matrix, float* sums) {
  for (int64_t i = begin; i < end; ++i) sums[i - begin] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = matrix + r * columns;
    SOAPSTONE_ELEMENTWISE
    for (int64_t i = begin; i < end; ++i) sums[i - begin] += row[i];
  }
}

}  // namespace soapstone::compute
