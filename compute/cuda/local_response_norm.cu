// Kernels of local response normalisation. The gradient gathers: each element is written by one
// thread.
#include "compute/cuda/kernels.h"
#include "compute/cuda/launch.h"
#include "compute/cuda/window_bounds.h"

namespace soapstone::compute {
namespace {

// The window around channel c: size/2 before it, (size − 1)/2 behind it.
struct ResponseElement {
  ResponsePass p;
  const float* x;
  float* s;
  float* y;
  SOAP_DEVICE void operator()(int64_t i) const {
    const int64_t inner = p.shape.inner, channels = p.shape.channels;
    const int64_t c = Remainder(Quotient(i, inner), channels);
    const int64_t first = Larger(c - p.size / 2, 0);
    const int64_t end = Smaller(c + (p.size - 1) / 2 + 1, channels);
    float sum = 0;
    for (int64_t k = first; k < end; ++k) {
      const float v = x[i + (k - c) * inner];
      sum += v * v;
    }
    const float scale = p.k + p.alpha / static_cast<float>(p.size) * sum;
    if (s != nullptr) s[i] = scale;
    y[i] = x[i] * powf(scale, -p.beta);
  }
};

// dx_c = dy_c s_c^−β − (2αβ/size) x_c Σ_{c': c in its window} dy_c' x_c' s_c'^(−β−1)
struct ResponseGradientElement {
  ResponsePass p;
  ResponseGradient g;
  SOAP_DEVICE void operator()(int64_t i) const {
    const int64_t inner = p.shape.inner, channels = p.shape.channels;
    const int64_t c = Remainder(Quotient(i, inner), channels);
    const int64_t first = Larger(c - (p.size - 1) / 2, 0);
    const int64_t end = Smaller(c + p.size / 2 + 1, channels);
    float sum = 0;
    for (int64_t k = first; k < end; ++k) {
      const int64_t at = i + (k - c) * inner;
      sum += g.dy[at] * g.x[at] * powf(g.s[at], -p.beta - 1.0f);
    }
    const float factor = 2.0f * p.alpha * p.beta / static_cast<float>(p.size);
    g.dx[i] = g.dy[i] * powf(g.s[i], -p.beta) - factor * g.x[i] * sum;
  }
};

}  // namespace

void ResponseForward(cudaStream_t stream, const ResponsePass& pass, const float* x, float* s,
                     float* y) {
  ForEach(stream, pass.shape.per_channel() * pass.shape.channels, ResponseElement{pass, x, s, y});
}
void ResponseBackward(cudaStream_t stream, const ResponsePass& pass, const ResponseGradient& g) {
  ForEach(stream, pass.shape.per_channel() * pass.shape.channels, ResponseGradientElement{pass, g});
}

}  // namespace soapstone::compute
