// Kernels with sums that several operators use: by column, by channel, and the softmax of rows.
#include "compute/cuda/kernels.h"
#include "compute/cuda/launch.h"
#include "compute/cuda/partial_sums.h"

namespace soapstone::compute {
namespace {

SOAP_DEVICE int64_t Visible(const SoftmaxPass& p, int64_t row) {
  return p.period > 0 ? Remainder(row, p.period) + 1 : p.cols;
}

struct SoftmaxRow {
  SoftmaxPass p;
  float* scores;
  SOAP_DEVICE void operator()(int64_t row) const {
    float* s = scores + row * p.cols;
    const int64_t visible = Visible(p, row);
    float largest = -INFINITY;
    for (int64_t i = Thread(); i < visible; i += kBlockThreads) largest = fmaxf(largest, s[i]);
    largest = BlockReduce(largest, LargestOf());
    float sum = 0;
    for (int64_t i = Thread(); i < visible; i += kBlockThreads) {
      const float e = expf(p.scale * (s[i] - largest));
      s[i] = e;  // read back by this thread alone
      sum += e;
    }
    const float inverse = 1.0f / BlockReduce(sum, SumOf());
    for (int64_t i = Thread(); i < p.cols; i += kBlockThreads) {
      s[i] = i < visible ? s[i] * inverse : 0.0f;
    }
  }
};

struct SoftmaxGradientRow {
  SoftmaxPass p;
  const float* probability;
  float* gradient;
  SOAP_DEVICE void operator()(int64_t row) const {
    const float* q = probability + row * p.cols;
    float* d = gradient + row * p.cols;
    const int64_t visible = Visible(p, row);
    float sum = 0;
    for (int64_t i = Thread(); i < visible; i += kBlockThreads) sum += q[i] * d[i];
    sum = BlockReduce(sum, SumOf());
    for (int64_t i = Thread(); i < p.cols; i += kBlockThreads) {
      d[i] = i < visible ? p.scale * q[i] * (d[i] - sum) : 0.0f;
    }
  }
};

}  // namespace

int64_t ColumnPartials(int64_t rows, int64_t cols) { return ColumnParts(rows) * cols; }

void SumColumns(cudaStream_t stream, int64_t rows, int64_t cols, const float* x, float* partial,
                float* out) {
  SumColumnsOf(stream, rows, cols, PlainColumn{x, cols}, partial, out, nullptr);
}

int64_t ChannelPartials(const ChannelShape& shape) {
  return 2 * ChannelParts(shape) * shape.channels;
}

void SumChannels(cudaStream_t stream, const ChannelShape& shape, const float* x, float* partial,
                 float* out) {
  SumChannelsOf(stream, shape, PlainElement{x}, partial, out, nullptr);
}

void SoftmaxRows(cudaStream_t stream, const SoftmaxPass& pass, float* scores) {
  ForEachRow(stream, pass.rows, SoftmaxRow{pass, scores});
}

void SoftmaxRowsBackward(cudaStream_t stream, const SoftmaxPass& pass, const float* p, float* dp) {
  ForEachRow(stream, pass.rows, SoftmaxGradientRow{pass, p, dp});
}

}  // namespace soapstone::compute
