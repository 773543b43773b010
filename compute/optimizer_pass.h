// The formulas of the optimizers, each an element-wise pass over one slice. Included where such
// passes are compiled for each width of vectors (optimizer.cc: a slice; row_optimizer.cc: many
// small ones) and nowhere else. Element by element in float32: the bits of an element do not depend
// on what is around it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/finite.h"
#include "base/vectors.h"
#include "compute/optimizer.h"

namespace soapstone::compute {

// The arguments of one pass, rounded once to float32.
struct OptimizerPass {
  size_t n = 0;
  const float* gradient = nullptr;  // [n]
  const float* from = nullptr;      // [n], w before
  float* w = nullptr;               // [n], may be `from`
  float* first = nullptr;           // [n], where the optimizer has it
  float* second = nullptr;          // [n], where the optimizer has it
  float lr = 0, scale = 0;
  float l2 = 0;                // coupled decay: fraction · decay
  float keep = 1;              // decoupled decay: 1 − lr·fraction·decay
  float rate = 0, unbias = 0;  // adam: lr/(1 − β1^t), 1/(1 − β2^t)
};

inline bool IsAdam(OptimizerKind kind) {
  return kind == OptimizerKind::kAdam || kind == OptimizerKind::kAdamw;
}

// What all passes of an update have in common; the pointers are the caller's to fill in.
inline OptimizerPass PassOf(const OptimizerSpec& spec, const Update& update, size_t n) {
  const bool decoupled = spec.kind == OptimizerKind::kAdamw;
  OptimizerPass pass;
  pass.n = n;
  pass.lr = static_cast<float>(update.lr);
  pass.scale = static_cast<float>(update.scale);
  pass.l2 = static_cast<float>(decoupled ? 0 : update.fraction * spec.decay);
  if (decoupled) pass.keep = static_cast<float>(1 - update.lr * update.fraction * spec.decay);
  return pass;
}

// part1 = 1 − β1^t, part2 = 1 − β2^t
inline void Unbias(double part1, double part2, OptimizerPass* pass) {
  pass->rate = static_cast<float>(pass->lr / part1);
  pass->unbias = static_cast<float>(1 / part2);
}

// g = scale·gradient + fraction·decay·w. Without decay the second half is left out: with it a pass
// over values in the cache is bound by arithmetic.
template <bool kDecays>
SOAPSTONE_INTO_CALLER float PassGradient(const OptimizerPass& p, size_t i) {
  const float g = p.scale * p.gradient[i];
  return kDecays ? g + p.l2 * p.from[i] : g;
}

// Every pass returns the MagnitudeBits of what it leaves. They are taken while a value is in a
// register: a second look, even at what the nearest cache has, doubled the time of PassSgd.
SOAPSTONE_INTO_CALLER int32_t BitsOf(float value) {
  return std::bit_cast<int32_t>(value) & 0x7fffffff;
}

// w ← w − lr·g
template <bool kDecays>
SOAPSTONE_INTO_CALLER int32_t PassSgd(const OptimizerPass& p) {
  int32_t bits = 0;
  SOAPSTONE_ELEMENTWISE
  for (size_t i = 0; i < p.n; ++i) {
    const float w = p.from[i] - p.lr * PassGradient<kDecays>(p, i);
    p.w[i] = w;
    bits = std::max(bits, BitsOf(w));
  }
  return bits;
}

// Heavy ball (Polyak 1964) in the form of Sutskever et al. 2013 without their lr inside v:
// v ← mu·v + g;  w ← w − lr·v
template <bool kDecays>
SOAPSTONE_INTO_CALLER int32_t PassMomentum(const OptimizerPass& p, const OptimizerSpec& spec) {
  const float mu = static_cast<float>(spec.mu);
  float* v = p.first;
  int32_t bits = 0;
  SOAPSTONE_ELEMENTWISE
  for (size_t i = 0; i < p.n; ++i) {
    const float v_now = mu * v[i] + PassGradient<kDecays>(p, i);
    const float w = p.from[i] - p.lr * v_now;
    v[i] = v_now;
    p.w[i] = w;
    bits = std::max(bits, std::max(BitsOf(v_now), BitsOf(w)));
  }
  return bits;
}

// v ← mu·v + g;  w ← w − lr·(g + mu·v)
template <bool kDecays>
SOAPSTONE_INTO_CALLER int32_t PassNesterov(const OptimizerPass& p, const OptimizerSpec& spec) {
  const float mu = static_cast<float>(spec.mu);
  float* v = p.first;
  int32_t bits = 0;
  SOAPSTONE_ELEMENTWISE
  for (size_t i = 0; i < p.n; ++i) {
    const float g = PassGradient<kDecays>(p, i);
    const float v_now = mu * v[i] + g;
    const float w = p.from[i] - p.lr * (g + mu * v_now);
    v[i] = v_now;
    p.w[i] = w;
    bits = std::max(bits, std::max(BitsOf(v_now), BitsOf(w)));
  }
  return bits;
}

// Duchi et al. 2011, diagonal:  s ← s + g²;  w ← w − lr·g / (√s + eps)
template <bool kDecays>
SOAPSTONE_INTO_CALLER int32_t PassAdagrad(const OptimizerPass& p, const OptimizerSpec& spec) {
  const float eps = static_cast<float>(spec.eps);
  float* s = p.second;
  int32_t bits = 0;
  SOAPSTONE_ELEMENTWISE
  for (size_t i = 0; i < p.n; ++i) {
    const float g = PassGradient<kDecays>(p, i);
    const float s_now = s[i] + g * g;
    const float w = p.from[i] - p.lr * (g / (std::sqrt(s_now) + eps));
    s[i] = s_now;
    p.w[i] = w;
    bits = std::max(bits, std::max(BitsOf(s_now), BitsOf(w)));
  }
  return bits;
}

// Tieleman and Hinton 2012:  s ← rho·s + (1 − rho)·g²;  w ← w − lr·g / (√s + eps)
template <bool kDecays>
SOAPSTONE_INTO_CALLER int32_t PassRmsprop(const OptimizerPass& p, const OptimizerSpec& spec) {
  const float rho = static_cast<float>(spec.rho);
  const float rest = static_cast<float>(1 - spec.rho);
  const float eps = static_cast<float>(spec.eps);
  float* s = p.second;
  int32_t bits = 0;
  SOAPSTONE_ELEMENTWISE
  for (size_t i = 0; i < p.n; ++i) {
    const float g = PassGradient<kDecays>(p, i);
    const float s_now = rho * s[i] + rest * (g * g);
    const float w = p.from[i] - p.lr * (g / (std::sqrt(s_now) + eps));
    s[i] = s_now;
    p.w[i] = w;
    bits = std::max(bits, std::max(BitsOf(s_now), BitsOf(w)));
  }
  return bits;
}

// Kingma and Ba 2015, algorithm 1; with keep < 1 AdamW (Loshchilov and Hutter 2019, algorithm 2):
// m ← β1·m + (1 − β1)·g;  s ← β2·s + (1 − β2)·g²
// w ← keep·w − lr/(1 − β1^t) · m / (√(s / (1 − β2^t)) + eps),  keep = 1 − lr·fraction·decay
template <bool kDecays>
SOAPSTONE_INTO_CALLER int32_t PassAdam(const OptimizerPass& p, const OptimizerSpec& spec) {
  const float beta1 = static_cast<float>(spec.beta1);
  const float rest1 = static_cast<float>(1 - spec.beta1);
  const float beta2 = static_cast<float>(spec.beta2);
  const float rest2 = static_cast<float>(1 - spec.beta2);
  const float eps = static_cast<float>(spec.eps);
  float* m = p.first;
  float* s = p.second;
  int32_t bits = 0;
  SOAPSTONE_ELEMENTWISE
  for (size_t i = 0; i < p.n; ++i) {
    const float g = PassGradient<kDecays>(p, i);
    const float m_now = beta1 * m[i] + rest1 * g;
    const float s_now = beta2 * s[i] + rest2 * (g * g);
    const float w = p.keep * p.from[i] - p.rate * (m_now / (std::sqrt(s_now * p.unbias) + eps));
    m[i] = m_now;
    s[i] = s_now;
    p.w[i] = w;
    bits = std::max(bits, std::max(std::max(BitsOf(m_now), BitsOf(s_now)), BitsOf(w)));
  }
  return bits;
}

// FTRL-Proximal (McMahan et al. 2013, algorithm 1), lr = α. There w is computed from (z, n) when it
// is read; here after each gradient, so that it can be read as any other value:
// σ = (√(n + g²) − √n)/α;  z ← z + g − σ·w;  n ← n + g²
// w ← 0 where |z| ≤ λ1, else −(z − sgn(z)·λ1) / ((β + √n)/α + λ2)
// The paper's w starts at 0. One that starts elsewhere has, as long as n = 0, the z that it is the
// result of: −w·(β/α + λ2) − sgn(w)·λ1. A rate of 0 changes nothing.
SOAPSTONE_INTO_CALLER int32_t PassFtrl(const OptimizerPass& p, const OptimizerSpec& spec) {
  const float alpha = p.lr;
  const float beta = static_cast<float>(spec.beta);
  const float l1 = static_cast<float>(spec.l1);
  const float l2 = static_cast<float>(spec.l2);
  const float start = beta / alpha + l2;
  float* z = p.first;
  float* n = p.second;
  int32_t bits = 0;
  SOAPSTONE_ELEMENTWISE
  for (size_t i = 0; i < p.n; ++i) {
    const float g = PassGradient<false>(p, i);
    const float w = p.from[i];
    const float l1_of_w = w > 0 ? l1 : w < 0 ? -l1 : 0.0f;
    const float z_before = n[i] == 0 ? -w * start - l1_of_w : z[i];
    const float n_now = n[i] + g * g;
    const float root = std::sqrt(n_now);
    const float z_now = z_before + (g - (root - std::sqrt(n[i])) / alpha * w);
    const float beyond = std::abs(z_now) - l1;
    const float step = beyond / ((beta + root) / alpha + l2);
    z[i] = z_now;
    n[i] = n_now;
    const float w_now = beyond > 0 ? (z_now > 0 ? -step : step) : 0.0f;
    p.w[i] = w_now;
    bits = std::max(bits, std::max(std::max(BitsOf(z_now), BitsOf(n_now)), BitsOf(w_now)));
  }
  return bits;
}

SOAPSTONE_INTO_CALLER int32_t PassKeep(const OptimizerPass& p) {
  int32_t bits = 0;
  for (size_t i = 0; i < p.n; ++i) {
    p.w[i] = p.from[i];
    bits = std::max({bits, BitsOf(p.from[i]), BitsOf(p.first[i]), BitsOf(p.second[i])});
  }
  return bits;
}

template <bool kDecays>
SOAPSTONE_INTO_CALLER int32_t RunPass(const OptimizerSpec& spec, const OptimizerPass& pass) {
  switch (spec.kind) {
    case OptimizerKind::kSgd:
      return PassSgd<kDecays>(pass);
    case OptimizerKind::kMomentum:
      return PassMomentum<kDecays>(pass, spec);
    case OptimizerKind::kNesterov:
      return PassNesterov<kDecays>(pass, spec);
    case OptimizerKind::kAdagrad:
      return PassAdagrad<kDecays>(pass, spec);
    case OptimizerKind::kRmsprop:
      return PassRmsprop<kDecays>(pass, spec);
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamw:
      return PassAdam<kDecays>(pass, spec);
    case OptimizerKind::kFtrl:
      return pass.lr > 0 ? PassFtrl(pass, spec) : PassKeep(pass);
  }
  return 0;
}

}  // namespace soapstone::compute
