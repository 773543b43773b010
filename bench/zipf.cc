#include "bench/zipf.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

namespace soapstone::bench {
namespace {

// 0.618 of the whole, or near: neighbours become far.
uint64_t StepOf(uint64_t count) {
  uint64_t step = std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(count) * 0.618));
  while (std::gcd(step, count) != 1) ++step;
  return step;
}

}  // namespace

// With h(x) = x^−q: H(x) = ∫ h = (x^(1−q) − 1)/(1 − q), or log x where q = 1.
Zipf::Zipf(uint64_t count, double exponent, uint64_t seed)
    : count_(count),
      exponent_(exponent),
      step_(StepOf(count)),
      random_(seed, RandomUse::kTest),
      h_first_(H(1.5) - 1),
      h_last_(H(static_cast<double>(count) + 0.5)),
      sure_(2 - HInverse(H(2.5) - std::pow(2, -exponent))) {}

double Zipf::H(double x) const {
  const double p = 1 - exponent_, log = std::log(x);
  return std::abs(p * log) < 1e-8 ? log : std::expm1(p * log) / p;
}

double Zipf::HInverse(double u) const {
  const double p = 1 - exponent_;
  return std::abs(p * u) < 1e-8 ? std::exp(u) : std::exp(std::log1p(std::max(-1.0, p * u)) / p);
}

// u uniform in [H(1.5) − h(1), H(n + 0.5)); x = H⁻¹(u); k = round(x), taken if k − x ≤ s or
// u ≥ H(k + 0.5) − h(k).
uint64_t Zipf::Draw() {
  for (;;) {
    const double u = h_last_ + random_.Uniform(drawn_++) * (h_first_ - h_last_);
    const double x = HInverse(u);
    const double k = std::clamp(std::floor(x + 0.5), 1.0, static_cast<double>(count_));
    if (k - x <= sure_ || u >= H(k + 0.5) - std::pow(k, -exponent_)) {
      return static_cast<uint64_t>(k) - 1;
    }
  }
}

uint64_t Zipf::KeyOf(uint64_t rank) const {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(rank) * step_ % count_);
}

std::vector<uint64_t> Zipf::Batch(size_t size) {
  std::unordered_set<uint64_t> keys;
  while (keys.size() < size) keys.insert(KeyOf(Draw()));
  std::vector<uint64_t> batch(keys.begin(), keys.end());
  std::sort(batch.begin(), batch.end());
  return batch;
}

}  // namespace soapstone::bench
