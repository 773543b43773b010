#include "bench/zipf.h"

#include <cmath>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace soapstone::bench {
namespace {

// Chi-square over all ranks against the probabilities themselves.
TEST(Zipf, DrawsItsDistribution) {
  for (const double exponent : {0.5, 1.0, 1.1, 2.0}) {
    for (const uint64_t count : {1, 2, 100}) {
      constexpr uint64_t kDraws = 200'000;
      Zipf zipf(count, exponent, 7);
      std::vector<double> seen(count), expected(count);
      for (uint64_t i = 0; i < kDraws; ++i) seen.at(zipf.Draw()) += 1;
      double sum = 0;
      for (uint64_t k = 0; k < count; ++k) sum += expected[k] = std::pow(k + 1.0, -exponent);
      double chi = 0;
      for (uint64_t k = 0; k < count; ++k) {
        const double e = expected[k] / sum * kDraws;
        chi += (seen[k] - e) * (seen[k] - e) / e;
      }
      // Mean count − 1, variance twice that: beyond 4 deviations it is another distribution.
      const double freedom = static_cast<double>(count) - 1;
      EXPECT_LE(chi, freedom + 4 * std::sqrt(2 * freedom)) << exponent << " " << count;
    }
  }
}

// Of ten million ranks, the share of the first 1, 10, ..., as the sums have it.
TEST(Zipf, TheTailIsAsHeavyAsItShouldBe) {
  constexpr uint64_t kCount = 10'000'000, kDraws = 400'000;
  Zipf zipf(kCount, 1.1, 3);
  std::vector<uint64_t> ranks(kDraws);
  for (uint64_t& rank : ranks) rank = zipf.Draw();
  double sum = 0;
  std::vector<double> below;  // 10^i
  for (uint64_t k = 0, next = 1; k < kCount; ++k) {
    sum += std::pow(k + 1.0, -1.1);
    if (k + 1 == next) {
      below.push_back(sum);
      next *= 10;
    }
  }
  for (size_t i = 0; i < below.size(); ++i) {
    double seen = 0;
    for (const uint64_t rank : ranks) seen += rank < std::pow(10, i) ? 1 : 0;
    EXPECT_NEAR(seen / kDraws, below[i] / sum, 0.004) << i;
  }
}

TEST(Zipf, BatchesHaveDifferentKeysAscending) {
  Zipf zipf(100'000, 1.1, 1);
  for (int i = 0; i < 3; ++i) {
    const std::vector<uint64_t> batch = zipf.Batch(500);
    ASSERT_EQ(batch.size(), 500u);
    for (size_t k = 1; k < batch.size(); ++k) ASSERT_LT(batch[k - 1], batch[k]);
    EXPECT_LT(batch.back(), 100'000u);
  }
}

TEST(Zipf, EveryRankHasAKeyOfItsOwn) {
  for (const uint64_t count : {1, 2, 10, 4096, 10'007}) {
    const Zipf zipf(count, 1.1, 1);
    std::set<uint64_t> keys;
    for (uint64_t rank = 0; rank < count; ++rank) keys.insert(zipf.KeyOf(rank));
    EXPECT_EQ(keys.size(), count);
    EXPECT_LT(*keys.rbegin(), count);
  }
}

}  // namespace
}  // namespace soapstone::bench
