// Kernels of batch normalisation.
#include "compute/cuda/kernels.h"
#include "compute/cuda/launch.h"
#include "compute/cuda/partial_sums.h"

namespace soapstone::compute {
namespace {

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

}  // namespace

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

}  // namespace soapstone::compute
