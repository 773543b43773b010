// Kernels with sums: by column, by channel, by row; normalisation, softmax and the loss. Sums by
// column and channel are taken in parts, whose number depends on the sizes alone, and then added.
#include "compute/cuda/kernels.h"
#include "compute/cuda/launch.h"

namespace soapstone::compute {
namespace {

struct TwoSums {
  float a, b;
};

int64_t AtLeastOne(int64_t n) { return n < 1 ? 1 : n; }
int64_t AtMost(int64_t n, int64_t most) { return n < most ? n : most; }

// ---- by column

int64_t ColumnParts(int64_t rows) { return AtMost(AtLeastOne(rows / 64), 256); }

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

int64_t ChannelParts(const ChannelShape& shape) {
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

struct SquareElement {
  const float* x;
  const float* mean;
  SOAP_DEVICE TwoSums operator()(int64_t channel, int64_t at) const {
    const float d = x[at] - mean[channel];
    return {d * d, 0.0f};
  }
};

struct ScaleElement {
  float* x;
  float scale;
  SOAP_DEVICE void operator()(int64_t i) const { x[i] *= scale; }
};

struct InverseDeviationElement {
  const float* variance;
  float epsilon;
  float* rstd;
  SOAP_DEVICE void operator()(int64_t i) const { rstd[i] = 1.0f / sqrtf(variance[i] + epsilon); }
};

struct NormalizeElement {
  ChannelShape shape;
  NormalizePass p;
  const float* x;
  float* y;
  SOAP_DEVICE void operator()(int64_t i) const {
    const int64_t c = Remainder(Quotient(i, shape.inner), shape.channels);
    const float v = (x[i] - p.mean[c]) * p.rstd[c] * p.weight[c] + p.bias[c];
    y[i] = p.relu && !(v > 0) ? 0.0f : v;
  }
};

SOAP_DEVICE float MaskedGradient(const BatchNormGradient& g, int64_t at) {
  return g.y != nullptr && !(g.y[at] > 0) ? 0.0f : g.dy[at];
}

// a: Σ dz, b: Σ dz·x̂
struct BatchNormSums {
  BatchNormGradient g;
  SOAP_DEVICE TwoSums operator()(int64_t channel, int64_t at) const {
    const float dz = MaskedGradient(g, at);
    return {dz, dz * ((g.x[at] - g.mean[channel]) * g.rstd[channel])};
  }
};

// dx = γ·r·(dz − (Σ dz + x̂ Σ dz·x̂)/n)
struct BatchNormInput {
  ChannelShape shape;
  BatchNormGradient g;
  float inverse_n;
  SOAP_DEVICE void operator()(int64_t i) const {
    const int64_t c = Remainder(Quotient(i, shape.inner), shape.channels);
    const float normal = (g.x[i] - g.mean[c]) * g.rstd[c];
    const float common = (g.dbias[c] + normal * g.dweight[c]) * inverse_n;
    g.dx[i] = g.weight[c] * g.rstd[c] * (MaskedGradient(g, i) - common);
  }
};

struct RunningElement {
  RunningGradient g;
  SOAP_DEVICE void operator()(int64_t c) const {
    g.dmean[c] = g.samples * (g.running_mean[c] - g.mean[c]);
    g.dvariance[c] = g.samples * (g.running_variance[c] - g.variance[c] * g.unbias);
  }
};

// ---- by row

struct LayerNormRow {
  LayerNormPass p;
  const float* x;
  float* y;
  SOAP_DEVICE void operator()(int64_t row) const {
    const float* from = x + row * p.cols;
    float sum = 0;
    for (int64_t i = Thread(); i < p.cols; i += kBlockThreads) sum += from[i];
    const float mean = BlockReduce(sum, SumOf()) / static_cast<float>(p.cols);
    sum = 0;
    for (int64_t i = Thread(); i < p.cols; i += kBlockThreads) {
      sum += (from[i] - mean) * (from[i] - mean);
    }
    const float variance = BlockReduce(sum, SumOf()) / static_cast<float>(p.cols);
    const float rstd = 1.0f / sqrtf(variance + p.epsilon);
    for (int64_t i = Thread(); i < p.cols; i += kBlockThreads) {
      y[row * p.cols + i] = (from[i] - mean) * rstd * p.weight[i] + p.bias[i];
    }
    if (Thread() == 0 && p.mean != nullptr) {
      p.mean[row] = mean;
      p.rstd[row] = rstd;
    }
  }
};

// dx = r·(dy·γ − (Σ dy·γ + x̂ Σ dy·γ·x̂)/D)
struct LayerNormInputRow {
  LayerNormGradient g;
  SOAP_DEVICE void operator()(int64_t row) const {
    const int64_t begin = row * g.cols;
    const float mean = g.mean[row], rstd = g.rstd[row];
    float sum = 0, sum_normal = 0;
    for (int64_t i = Thread(); i < g.cols; i += kBlockThreads) {
      const float d = g.dy[begin + i] * g.weight[i];
      sum += d;
      sum_normal += d * ((g.x[begin + i] - mean) * rstd);
    }
    sum = BlockReduce(sum, SumOf());
    sum_normal = BlockReduce(sum_normal, SumOf());
    const float inverse = 1.0f / static_cast<float>(g.cols);
    for (int64_t i = Thread(); i < g.cols; i += kBlockThreads) {
      const float normal = (g.x[begin + i] - mean) * rstd;
      const float d = g.dy[begin + i] * g.weight[i];
      g.dx[begin + i] = rstd * (d - (sum + normal * sum_normal) * inverse);
    }
  }
};

// a: Σ dy·x̂, b: Σ dy
struct LayerNormColumn {
  LayerNormGradient g;
  SOAP_DEVICE TwoSums operator()(int64_t row, int64_t col) const {
    const int64_t at = row * g.cols + col;
    return {g.dy[at] * ((g.x[at] - g.mean[row]) * g.rstd[row]), g.dy[at]};
  }
};

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

// One place of one sample. A place without a label has neither loss nor hit.
struct LossRow {
  LossPass p;
  SOAP_DEVICE void operator()(int64_t row) const {
    const float* x = p.logits + row * p.classes;
    float largest = -INFINITY;
    for (int64_t i = Thread(); i < p.classes; i += kBlockThreads) largest = fmaxf(largest, x[i]);
    largest = BlockReduce(largest, LargestOf());
    int first = 0x7fffffff;
    float sum = 0;
    for (int64_t i = Thread(); i < p.classes; i += kBlockThreads) {
      if (x[i] == largest && i < first) first = static_cast<int>(i);
      sum += expf(x[i] - largest);
    }
    first = BlockReduce(first, FirstOf());
    sum = BlockReduce(sum, SumOf());
    if (Thread() != 0) return;
    const float log_sum = largest + logf(sum);
    const int32_t label = p.labels[row];
    const bool counts = label >= 0 && label < p.classes;
    p.log_sum[row] = log_sum;
    p.row_loss[row] = counts ? log_sum - x[label] : 0.0f;
    p.row_hit[row] = counts && first == label ? 1.0f : 0.0f;
  }
};

struct LossSample {
  LossPass p;
  float* loss;
  float* hits;
  SOAP_DEVICE void operator()(int64_t n) const {
    float sum = 0, hit = 0, count = 0;
    for (int64_t i = n * p.places; i < (n + 1) * p.places; ++i) {
      sum += p.row_loss[i];
      hit += p.row_hit[i];
      count += p.labels[i] >= 0 ? 1.0f : 0.0f;
    }
    const float inverse = count > 0 ? 1.0f / count : 0.0f;
    p.inverse[n] = inverse;
    loss[n] = sum * inverse;
    hits[n] = hit * inverse;
  }
};

struct LossGradientElement {
  LossPass p;
  float* dlogits;
  SOAP_DEVICE void operator()(int64_t i) const {
    const int64_t row = Quotient(i, p.classes);
    const int32_t label = p.labels[row];
    if (label < 0) {
      dlogits[i] = 0;
      return;
    }
    const float probability = expf(p.logits[i] - p.log_sum[row]);
    const float target = i - row * p.classes == label ? 1.0f : 0.0f;
    dlogits[i] = (probability - target) * p.inverse[Quotient(row, p.places)];
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

void BatchStatistics(cudaStream_t stream, const ChannelShape& shape, const float* x, float epsilon,
                     const ChannelStatistics& out, float* partial) {
  const float inverse = 1.0f / static_cast<float>(shape.per_channel());
  SumChannelsOf(stream, shape, PlainElement{x}, partial, out.mean, nullptr);
  ForEach(stream, shape.channels, ScaleElement{out.mean, inverse});
  SumChannelsOf(stream, shape, SquareElement{x, out.mean}, partial, out.variance, nullptr);
  ForEach(stream, shape.channels, ScaleElement{out.variance, inverse});
  InverseDeviation(stream, shape.channels, out.variance, epsilon, out.rstd);
}

void InverseDeviation(cudaStream_t stream, int64_t n, const float* variance, float epsilon,
                      float* rstd) {
  ForEach(stream, n, InverseDeviationElement{variance, epsilon, rstd});
}

void NormalizeChannels(cudaStream_t stream, const ChannelShape& shape, const NormalizePass& pass,
                       const float* x, float* y) {
  ForEach(stream, shape.per_channel() * shape.channels, NormalizeElement{shape, pass, x, y});
}

void BatchNormBackward(cudaStream_t stream, const ChannelShape& shape, const BatchNormGradient& g) {
  SumChannelsOf(stream, shape, BatchNormSums{g}, g.partial, g.dbias, g.dweight);
  if (g.dx == nullptr) return;
  const float inverse = 1.0f / static_cast<float>(shape.per_channel());
  ForEach(stream, shape.per_channel() * shape.channels, BatchNormInput{shape, g, inverse});
}

void RunningStatistics(cudaStream_t stream, int64_t channels, const RunningGradient& g) {
  ForEach(stream, channels, RunningElement{g});
}

void LayerNormForward(cudaStream_t stream, const LayerNormPass& pass, const float* x, float* y) {
  ForEachRow(stream, pass.rows, LayerNormRow{pass, x, y});
}

void LayerNormBackward(cudaStream_t stream, const LayerNormGradient& g) {
  SumColumnsOf(stream, g.rows, g.cols, LayerNormColumn{g}, g.partial, g.dweight, g.dbias);
  if (g.dx != nullptr) ForEachRow(stream, g.rows, LayerNormInputRow{g});
}

void SoftmaxRows(cudaStream_t stream, const SoftmaxPass& pass, float* scores) {
  ForEachRow(stream, pass.rows, SoftmaxRow{pass, scores});
}

void SoftmaxRowsBackward(cudaStream_t stream, const SoftmaxPass& pass, const float* p, float* dp) {
  ForEachRow(stream, pass.rows, SoftmaxGradientRow{pass, p, dp});
}

void LossForward(cudaStream_t stream, const LossPass& pass, float* loss, float* hits) {
  ForEachRow(stream, pass.samples * pass.places, LossRow{pass});
  ForEach(stream, pass.samples, LossSample{pass, loss, hits});
}

void LossBackward(cudaStream_t stream, const LossPass& pass, float* dlogits) {
  ForEach(stream, pass.samples * pass.places * pass.classes, LossGradientElement{pass, dlogits});
}

}  // namespace soapstone::compute
