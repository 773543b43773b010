// exp, log, tanh and the logistic function as loops of them are vectorised: without branches, in
// float32, within 3 units in the last place. And sums and maxima over a row, in lanes, so that they
// are vectorised too: the order of additions is a function of the length alone. All are made to
// become a part of functions that SOAPSTONE_EACH_VECTOR_WIDTH stands before.
#pragma once

#include <bit>
#include <cstdint>

#include "base/vectors.h"

namespace soapstone::compute {

// e^x; 0 below −87 (so that nothing computes with denormals), e^88 above 88.
SOAPSTONE_INTO_CALLER float VectorExp(float x) {
  // x = n·ln 2 + r. Adding 1.5·2^23 rounds to an integer, which is then in the low bits.
  constexpr float kRound = 12582912.0f;
  const float high = x > 88.0f ? 88.0f : x;
  const float clamped = high < -87.0f ? -87.0f : high;
  const float shifted = clamped * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts
  // (e^r − 1 − r)/r², a minimax polynomial of relative error 3e-9 (of e^r) on |r| <= ln(2)/2
  float p = 0.00138145441f;
  p = p * r + 0.00836874539f;
  p = p * r + 0.0416683907f;
  p = p * r + 0.166665204f;
  p = p * r + 0.499999934f;
  const float y = 1.0f + (r + r * r * p);
  const int32_t exponent = (std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound)) << 23;
  const float power = std::bit_cast<float>(std::bit_cast<int32_t>(y) + exponent);
  return x < -87.0f ? 0.0f : power;
}

// log x for normal x > 0; no number where x is infinite or none.
SOAPSTONE_INTO_CALLER float VectorLog(float x) {
  // x = 2^n·m, √½ <= m < √2
  constexpr int32_t kRootHalf = 0x3F3504F3;
  const int32_t bits = std::bit_cast<int32_t>(x) - kRootHalf;
  const float n = static_cast<float>(bits >> 23);
  const float m = std::bit_cast<float>((bits & 0x7FFFFF) + kRootHalf);
  // log m = 2·artanh s = 2·(s + s³/3 + s⁵/5 + ..), |s| < 0.172: the rest is below 6e-10·s
  const float s = (m - 1.0f) / (m + 1.0f);
  const float q = s * s;
  float p = 0.222222222f;
  p = p * q + 0.285714286f;
  p = p * q + 0.4f;
  p = p * q + 0.666666667f;
  const float rest = s * q * p - n * 2.12194440e-4f;  // ln 2 in two parts
  return (rest + (s + s)) + n * 0.693359375f + (x - x);
}

SOAPSTONE_INTO_CALLER float VectorSigmoid(float x) { return 1.0f / (1.0f + VectorExp(-x)); }

SOAPSTONE_INTO_CALLER float VectorTanh(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const float a = std::bit_cast<float>(bits & 0x7FFFFFFFu);
  // (tanh x − x)/x³ in x², a minimax polynomial of relative error 4e-9 (of tanh x) on |x| <= 0.625
  const float u = x * x;
  float p = -0.00570498453f;
  p = p * u + 0.0206390849f;
  p = p * u - 0.0537397143f;
  p = p * u + 0.133314422f;
  p = p * u - 0.333332819f;
  const float small = x + x * u * p;
  const float large = 1.0f - 2.0f / (VectorExp(a + a) + 1.0f);
  const float signed_large =
      std::bit_cast<float>(std::bit_cast<uint32_t>(large) | (bits & 0x80000000u));
  return a < 0.625f ? small : signed_large;
}

inline constexpr int64_t kLanes = 64;

// Σ term(i) for i in [0, n)
template <typename Term>
SOAPSTONE_INTO_CALLER float LaneSum(int64_t n, const Term& term) {
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] += term(i + l);
  }
  for (int64_t l = 0; l < n - i; ++l) lanes[l] += term(i + l);
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

// The largest of x [n], n > 0.
SOAPSTONE_INTO_CALLER float LaneMax(const float* x, int64_t n) {
  float lanes[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) lanes[l] = x[0];
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = lanes[l] > x[i + l] ? lanes[l] : x[i + l];
  }
  for (int64_t l = 0; l < n - i; ++l) lanes[l] = lanes[l] > x[i + l] ? lanes[l] : x[i + l];
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t l = 0; l < half; ++l) {
      lanes[l] = lanes[l] > lanes[l + half] ? lanes[l] : lanes[l + half];
    }
  }
  return lanes[0];
}

// x [n] ← softmax(x), n > 0
SOAPSTONE_INTO_CALLER void SoftmaxRow(int64_t n, float* x) {
  const float max = LaneMax(x, n);
  const float sum = LaneSum(n, [&](int64_t i) { return x[i] = VectorExp(x[i] - max); });
  const float scale = 1.0f / sum;
  SOAPSTONE_ELEMENTWISE
  for (int64_t i = 0; i < n; ++i) x[i] *= scale;
}

// grad [n] ← scale · p (grad − Σ p·grad): of the arguments of p = softmax(·)
SOAPSTONE_INTO_CALLER void SoftmaxRowGradient(int64_t n, float scale, const float* p, float* grad) {
  const float dot = LaneSum(n, [&](int64_t i) { return p[i] * grad[i]; });
  SOAPSTONE_ELEMENTWISE
  for (int64_t i = 0; i < n; ++i) grad[i] = scale * p[i] * (grad[i] - dot);
}

}  // namespace soapstone::compute
