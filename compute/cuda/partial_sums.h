// Sums by column and by channel of what a functor says of each element. They are taken in parts,
// whose number depends on the sizes alone, and then added. Included by .cu files alone.
#pragma once

#include <cstdint>

#include "compute/cuda/kernels.h"
#include "compute/cuda/launch.h"

namespace soapstone::compute {

struct TwoSums {
  float a, b;
};

inline int64_t AtLeastOne(int64_t n) { return n < 1 ? 1 : n; }
inline int64_t AtMost(int64_t n, int64_t most) { return n < most ? n : most; }

// ---- by column

inline int64_t ColumnParts(int64_t rows) { return AtMost(AtLeastOne(rows / 64), 256); }

// part i / cols of column i % cols; F: (row, col) → TwoSums
template <typename F>
struct ColumnPart {
  int64_t rows, cols, rows_each;
  F value;
  float* a;
  float* b;  // null: not wanted
  SOAP_DEVICE void operator()(int64_t i) const {
    const int64_t part = Quotient(i, cols);
    const int64_t col = i - part * cols;
    const int64_t end = (part + 1) * rows_each < rows ? (part + 1) * rows_each : rows;
    float sum_a = 0, sum_b = 0;
    for (int64_t row = part * rows_each; row < end; ++row) {
      const TwoSums v = value(row, col);
      sum_a += v.a;
      sum_b += v.b;
    }
    a[i] = sum_a;
    if (b != nullptr) b[i] = sum_b;
  }
};

struct PlainColumn {
  const float* x;
  int64_t cols;
  SOAP_DEVICE TwoSums operator()(int64_t row, int64_t col) const {
    return {x[row * cols + col], 0.0f};
  }
};

struct PartsColumn {
  const float* a;
  const float* b;
  int64_t cols;
  SOAP_DEVICE TwoSums operator()(int64_t row, int64_t col) const {
    return {a[row * cols + col], b != nullptr ? b[row * cols + col] : 0.0f};
  }
};

// partial: 2·parts·cols floats if b, else parts·cols.
template <typename F>
void SumColumnsOf(cudaStream_t stream, int64_t rows, int64_t cols, F value, float* partial,
                  float* a, float* b) {
  const int64_t parts = ColumnParts(rows);
  const int64_t rows_each = (rows + parts - 1) / parts;
  float* const part_b = b != nullptr ? partial + parts * cols : nullptr;
  ForEach(stream, parts * cols, ColumnPart<F>{rows, cols, rows_each, value, partial, part_b});
  ForEach(stream, cols,
          ColumnPart<PartsColumn>{parts, cols, parts, PartsColumn{partial, part_b, cols}, a, b});
}

// ---- by channel

inline int64_t ChannelParts(const ChannelShape& shape) {
  return AtMost(AtLeastOne(shape.per_channel() / 4096), 64);
}

// Row r: part r / channels of channel r % channels; F: (channel, element) → TwoSums
template <typename F>
struct ChannelPart {
  ChannelShape shape;
  int64_t each;  // elements of a part
  F value;
  float* a;
  float* b;
  SOAP_DEVICE void operator()(int64_t r) const {
    const int64_t part = Quotient(r, shape.channels);
    const int64_t channel = r - part * shape.channels;
    const int64_t all = shape.samples * shape.inner;
    const int64_t end = (part + 1) * each < all ? (part + 1) * each : all;
    float sum_a = 0, sum_b = 0;
    for (int64_t j = part * each + Thread(); j < end; j += kBlockThreads) {
      const int64_t sample = Quotient(j, shape.inner);
      const int64_t at =
          (sample * shape.channels + channel) * shape.inner + (j - sample * shape.inner);
      const TwoSums v = value(channel, at);
      sum_a += v.a;
      sum_b += v.b;
    }
    sum_a = BlockReduce(sum_a, SumOf());
    if (Thread() == 0) a[r] = sum_a;
    if (b == nullptr) return;
    sum_b = BlockReduce(sum_b, SumOf());
    if (Thread() == 0) b[r] = sum_b;
  }
};

template <typename F>
void SumChannelsOf(cudaStream_t stream, const ChannelShape& shape, F value, float* partial,
                   float* a, float* b) {
  const int64_t parts = ChannelParts(shape);
  const int64_t each = (shape.per_channel() + parts - 1) / parts;
  const int64_t cols = shape.channels;
  float* const part_b = b != nullptr ? partial + parts * cols : nullptr;
  ForEachRow(stream, parts * cols, ChannelPart<F>{shape, each, value, partial, part_b});
  ForEach(stream, cols,
          ColumnPart<PartsColumn>{parts, cols, parts, PartsColumn{partial, part_b, cols}, a, b});
}

struct PlainElement {
  const float* x;
  SOAP_DEVICE TwoSums operator()(int64_t /*channel*/, int64_t at) const { return {x[at], 0.0f}; }
};

}  // namespace soapstone::compute
