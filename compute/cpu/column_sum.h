// Sums over the rows of a matrix, in the order of the rows: the gradients of what is added to each.
#pragma once

#include <cstdint>

namespace soapstone::compute {

// sums [end − begin] of the columns [begin, end) of rows [rows, columns]
void SumColumns(int64_t rows, int64_t columns, int64_t begin, int64_t end, const float* matrix,
                float* sums);

}  // namespace soapstone::compute
