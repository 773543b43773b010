#include "bench/memory.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/types/span.h"
#include "base/finite.h"
#include "base/vectors.h"
#include "bench/processes.h"
#include "glog/logging.h"

namespace soapstone::bench {
namespace {

constexpr Nanos kLongEnough = 200 * kMillisecond;

SOAPSTONE_EACH_VECTOR_WIDTH
void Add(const float* g, float* x, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] += g[i];
}

// Repeats until it took long enough; bytes a second.
template <typename Pass>
double RateOf(size_t bytes, const Pass& pass) {
  pass();  // touches all pages
  const Nanos began = Now();
  uint64_t passes = 0;
  Nanos took = 0;
  while (took < kLongEnough) {
    for (size_t i = 0; i < 1 + (size_t{1} << 20) / bytes; ++i, ++passes) pass();
    took = Now() - began;
  }
  return static_cast<double>(bytes * passes) / static_cast<double>(took);
}

}  // namespace

double MemcpyRate(size_t bytes) {
  std::vector<char> from(bytes, 1), to(bytes);
  return RateOf(bytes, [&] {
    std::memcpy(to.data(), from.data(), bytes);
    asm volatile("" : : "r"(to.data()) : "memory");  // the copy is wanted
  });
}

double FloatAddRate(size_t bytes, size_t blocks) {
  const size_t each = bytes / sizeof(float);
  std::vector<float> g(blocks * each, 1e-6f), x(blocks * each, 1.0f);
  return RateOf(bytes * blocks, [&] {
    for (size_t i = 0; i < blocks; ++i) Add(g.data() + i * each, x.data() + i * each, each);
    asm volatile("" : : "r"(x.data()) : "memory");
  });
}

double ApplyRate(const compute::OptimizerSpec& optimizer, size_t bytes) {
  std::vector<float> w(bytes / sizeof(float), 1.0f), g(w.size(), 1e-3f);
  compute::SliceState state;
  const double rate = RateOf(bytes, [&] {
    compute::ApplyGradient(optimizer, {.lr = 1e-3, .scale = 1, .fraction = 1}, g, absl::MakeSpan(w),
                           &state);
  });
  const double moments = (state.first.empty() ? 0 : 1) + (state.second.empty() ? 0 : 1);
  return (3 + 2 * moments) * rate;
}

double LookRate(size_t bytes) {
  std::vector<float> g(bytes / sizeof(float), 1e-3f);
  bool finite = true;
  const double rate = RateOf(bytes, [&] { finite &= AllFinite(g); });
  CHECK(finite);
  return rate;
}

}  // namespace soapstone::bench
