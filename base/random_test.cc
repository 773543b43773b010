#include "base/random.h"

#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace soapstone {
namespace {

// CounterRandom mixes (use, stream) into the counter's upper half by a bijection, so there is a
// stream for which the upper half is that of each published vector (Random123, kat_vectors).
TEST(CounterRandom, GivesThePublishedVectorsOfPhilox) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(CounterRandom(0, RandomUse::kTest, 0x42ed1dd2718976afu).Block(0),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(CounterRandom(~uint64_t{0}, RandomUse::kTest, 0x124711628a1dc4efu).Block(~uint64_t{0}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(CounterRandom(0x299f31d0a4093822u, RandomUse::kTest, 0x63f8756f16764879u)
                .Block(0x85a308d3243f6a88u),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(CounterRandom, DrawsDoNotDependOnOrder) {
  const CounterRandom a(7, RandomUse::kTest, 3);
  const CounterRandom b(7, RandomUse::kTest, 3);
  const auto late = a.Block(1000);
  a.Block(1);
  EXPECT_EQ(late, b.Block(1000));
}

TEST(CounterRandom, SeedUseStreamAndIndexAllMatter) {
  std::set<uint64_t> draws;
  for (uint64_t seed : {1, 2}) {
    for (RandomUse use : {RandomUse::kInit, RandomUse::kTest}) {
      for (uint64_t stream : {0, 1}) {
        for (uint64_t index : {0, 1}) draws.insert(CounterRandom(seed, use, stream).Bits(index));
      }
    }
  }
  EXPECT_EQ(draws.size(), 16u);
}

TEST(CounterRandom, HighBitsOfSeedAndIndexMatter) {
  const uint64_t high = uint64_t{1} << 63;
  EXPECT_NE(CounterRandom(1, RandomUse::kTest).Bits(0),
            CounterRandom(1 | high, RandomUse::kTest).Bits(0));
  EXPECT_NE(CounterRandom(1, RandomUse::kTest).Bits(5),
            CounterRandom(1, RandomUse::kTest).Bits(5 | high));
}

TEST(CounterRandom, EveryBitIsSetHalfTheTime) {
  constexpr int kDraws = 20000;
  const CounterRandom random(11, RandomUse::kTest);
  std::array<int, 128> ones = {};
  for (int i = 0; i < kDraws; ++i) {
    const auto block = random.Block(i);
    for (int bit = 0; bit < 128; ++bit) ones[bit] += (block[bit / 32] >> (bit % 32)) & 1;
  }
  const double five_sigma = 5 * std::sqrt(kDraws) / 2;
  for (int count : ones) EXPECT_NEAR(count, kDraws / 2.0, five_sigma);
}

TEST(CounterRandom, UniformHasTheMomentsOfTheUniform) {
  constexpr int kDraws = 50000;
  const CounterRandom random(5, RandomUse::kTest);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = random.Uniform(i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.007);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.007);
}

TEST(CounterRandom, NormalHasTheMomentsOfTheNormal) {
  constexpr int kDraws = 50000;
  const CounterRandom random(6, RandomUse::kTest);
  double sum = 0;
  double squares = 0;
  double fourths = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double z = random.Normal(i);
    ASSERT_TRUE(std::isfinite(z));
    sum += z;
    squares += z * z;
    fourths += z * z * z * z;
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 0.025);
  EXPECT_NEAR(squares / kDraws, 1.0, 0.035);
  EXPECT_NEAR(fourths / kDraws, 3.0, 0.25);
}

TEST(CounterRandom, BelowIsEvenOverItsRange) {
  constexpr int kDraws = 70000;
  const CounterRandom random(8, RandomUse::kTest);
  std::array<int, 7> counts = {};
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t x = random.Below(i, 7);
    ASSERT_LT(x, 7u);
    ++counts[x];
  }
  for (int count : counts) EXPECT_NEAR(count, kDraws / 7.0, 500);
}

TEST(CounterRandom, ManyBlocksAreThoseOneByOne) {
  const CounterRandom random(0x123456789abcdefu, RandomUse::kTest, 77);
  constexpr uint64_t kFirst = 0xfffffff0u;  // the indices cross 2^32
  std::vector<uint32_t> words(4 * 101);
  random.Blocks(kFirst, 101, words.data());
  for (size_t i = 0; i < 101; ++i) {
    const std::array<uint32_t, 4> block = random.Block(kFirst + i);
    for (size_t w = 0; w < 4; ++w) ASSERT_EQ(words[4 * i + w], block[w]) << i;
  }
}

TEST(CounterRandom, BelowOneIsZero) {
  EXPECT_EQ(CounterRandom(1, RandomUse::kTest).Below(9, 1), 0u);
}

}  // namespace
}  // namespace soapstone
