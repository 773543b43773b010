// Kernels of layer normalisation.
#include "compute/cuda/kernels.h"
#include "compute/cuda/launch.h"
#include "compute/cuda/partial_sums.h"

namespace soapstone::compute {
namespace {

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

}  // namespace

void LayerNormForward(cudaStream_t stream, const LayerNormPass& pass, const float* x, float* y) {
  ForEachRow(stream, pass.rows, LayerNormRow{pass, x, y});
}

void LayerNormBackward(cudaStream_t stream, const LayerNormGradient& g) {
  SumColumnsOf(stream, g.rows, g.cols, LayerNormColumn{g}, g.partial, g.dweight, g.dbias);
  if (g.dx != nullptr) ForEachRow(stream, g.rows, LayerNormInputRow{g});
}

}  // namespace soapstone::compute
