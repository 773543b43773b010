// Small kernels element by element: activations, bias, sums, products, bfloat16.
#include "compute/cuda/kernels.h"
#include "compute/cuda/launch.h"

namespace soapstone::compute {
namespace {

constexpr float kRootHalf = 0.70710678118654752f;
constexpr float kInverseRootTwoPi = 0.39894228040143268f;

template <DeviceActivation kKind>
struct ActivateElement {
  const float* x;
  float* y;
  SOAP_DEVICE void operator()(int64_t i) const {
    const float v = x[i];
    if (kKind == DeviceActivation::kRelu) y[i] = v > 0 ? v : 0.0f;
    if (kKind == DeviceActivation::kTanh) y[i] = tanhf(v);
    if (kKind == DeviceActivation::kSigmoid) y[i] = 1.0f / (1.0f + expf(-v));
    if (kKind == DeviceActivation::kGelu) y[i] = 0.5f * v * (1.0f + erff(v * kRootHalf));
  }
};

template <DeviceActivation kKind>
struct ActivateGradientElement {
  const float* source;
  const float* dy;
  float* dx;
  SOAP_DEVICE void operator()(int64_t i) const {
    const float s = source[i];
    const float d = dy[i];
    if (kKind == DeviceActivation::kRelu) dx[i] = s > 0 ? d : 0.0f;
    if (kKind == DeviceActivation::kTanh) dx[i] = d * (1.0f - s * s);
    if (kKind == DeviceActivation::kSigmoid) dx[i] = d * s * (1.0f - s);
    if (kKind == DeviceActivation::kGelu) {
      const float below = 0.5f * (1.0f + erff(s * kRootHalf));
      dx[i] = d * (below + s * kInverseRootTwoPi * expf(-0.5f * s * s));
    }
  }
};

struct BiasElement {
  BiasPass p;
  float* y;
  SOAP_DEVICE void operator()(int64_t i) const {
    float v = y[i];
    if (p.bias != nullptr) v += p.bias[Remainder(Quotient(i, p.inner), p.channels)];
    y[i] = p.relu && !(v > 0) ? 0.0f : v;
  }
};

struct SumElement {
  TensorList list;
  bool relu;
  float* y;
  SOAP_DEVICE void operator()(int64_t i) const {
    float sum = list.x[0][i];
    for (int k = 1; k < list.count; ++k) sum += list.x[k][i];
    y[i] = relu && !(sum > 0) ? 0.0f : sum;
  }
};

struct ProductElement {
  const float* a;
  const float* b;
  float* y;
  SOAP_DEVICE void operator()(int64_t i) const { y[i] = a[i] * b[i]; }
};

struct RowSumElement {
  int64_t n;
  const float* x;
  const float* b;
  float* y;
  SOAP_DEVICE void operator()(int64_t i) const { y[i] = x[i] + b[Remainder(i, n)]; }
};

union FloatBits {
  float value;
  uint32_t bits;
};

struct ToBfloat16Element {
  const float* x;
  uint16_t* y;
  SOAP_DEVICE void operator()(int64_t i) const {
    FloatBits v;
    v.value = x[i];
    const bool nan = (v.bits & 0x7fffffffu) > 0x7f800000u;
    const uint32_t rounded = v.bits + 0x7fffu + ((v.bits >> 16) & 1u);
    y[i] = nan ? static_cast<uint16_t>(0x7fc0) : static_cast<uint16_t>(rounded >> 16);
  }
};

struct FromBfloat16Element {
  const uint16_t* x;
  float* y;
  SOAP_DEVICE void operator()(int64_t i) const {
    FloatBits v;
    v.bits = static_cast<uint32_t>(x[i]) << 16;
    y[i] = v.value;
  }
};

}  // namespace

void ActivateForward(cudaStream_t stream, DeviceActivation kind, int64_t n, const float* x,
                     float* y) {
  switch (kind) {
    case DeviceActivation::kRelu:
      return ForEach(stream, n, ActivateElement<DeviceActivation::kRelu>{x, y});
    case DeviceActivation::kTanh:
      return ForEach(stream, n, ActivateElement<DeviceActivation::kTanh>{x, y});
    case DeviceActivation::kSigmoid:
      return ForEach(stream, n, ActivateElement<DeviceActivation::kSigmoid>{x, y});
    case DeviceActivation::kGelu:
      return ForEach(stream, n, ActivateElement<DeviceActivation::kGelu>{x, y});
  }
}

void ActivateBackward(cudaStream_t stream, int64_t n, const ActivationGradient& g) {
  switch (g.kind) {
    case DeviceActivation::kRelu:
      return ForEach(stream, n,
                     ActivateGradientElement<DeviceActivation::kRelu>{g.source, g.dy, g.dx});
    case DeviceActivation::kTanh:
      return ForEach(stream, n,
                     ActivateGradientElement<DeviceActivation::kTanh>{g.source, g.dy, g.dx});
    case DeviceActivation::kSigmoid:
      return ForEach(stream, n,
                     ActivateGradientElement<DeviceActivation::kSigmoid>{g.source, g.dy, g.dx});
    case DeviceActivation::kGelu:
      return ForEach(stream, n,
                     ActivateGradientElement<DeviceActivation::kGelu>{g.source, g.dy, g.dx});
  }
}

void AddBias(cudaStream_t stream, const BiasPass& pass, float* y) {
  ForEach(stream, pass.outer * pass.channels * pass.inner, BiasElement{pass, y});
}

void AddTensors(cudaStream_t stream, const TensorList& list, bool relu, int64_t n, float* y) {
  ForEach(stream, n, SumElement{list, relu, y});
}

void MultiplyTensors(cudaStream_t stream, int64_t n, const float* a, const float* b, float* y) {
  ForEach(stream, n, ProductElement{a, b, y});
}

void AddToRows(cudaStream_t stream, int64_t rows, int64_t n, const float* x, const float* b,
               float* y) {
  ForEach(stream, rows * n, RowSumElement{n, x, b, y});
}

void ToBfloat16(cudaStream_t stream, int64_t n, const float* x, uint16_t* y) {
  ForEach(stream, n, ToBfloat16Element{x, y});
}

void FromBfloat16(cudaStream_t stream, int64_t n, const uint16_t* x, float* y) {
  ForEach(stream, n, FromBfloat16Element{x, y});
}

}  // namespace soapstone::compute
