#include "compute/init.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

std::vector<float> Slice(const ParamSpec& spec, uint64_t begin, size_t size, uint64_t seed = 1,
                         uint32_t param = 0) {
  std::vector<float> out(size, -77.0f);
  InitSlice(spec, seed, ParamId{param}, begin, absl::MakeSpan(out));
  return out;
}

class EveryInit : public ::testing::TestWithParam<InitKind> {};

TEST_P(EveryInit, SlicesHaveTheBitsOfTheWhole) {
  const ParamSpec spec = {"w", {10, 7}, GetParam(), 0.3};
  const std::vector<float> whole = Slice(spec, 0, 70);
  for (uint64_t begin : {0, 1, 33, 69}) {
    const std::vector<float> slice = Slice(spec, begin, 70 - begin);
    EXPECT_EQ(slice, std::vector<float>(whole.begin() + begin, whole.end()));
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryInit,
                         ::testing::Values(InitKind::kZero, InitKind::kOne, InitKind::kUniform,
                                           InitKind::kNormal));

TEST(Init, ConstantsAreConstant) {
  EXPECT_EQ(Slice({"b", {2}, InitKind::kZero}, 0, 2), (std::vector<float>{0, 0}));
  EXPECT_EQ(Slice({"b", {2}, InitKind::kOne}, 0, 2), (std::vector<float>{1, 1}));
}

TEST(Init, GivenValuesComeBeforeTheSeed) {
  const ParamSpec spec = {"w", {2, 2}, InitKind::kUniform, 0.3};
  const GivenValues given = {{9}, {1, 2, 3, 4}};
  std::vector<float> out(3);
  InitSlice(spec, 1, &given, ParamId{1}, 1, absl::MakeSpan(out));
  EXPECT_EQ(out, (std::vector<float>{2, 3, 4}));
  InitSlice(spec, 1, nullptr, ParamId{1}, 1, absl::MakeSpan(out));
  EXPECT_EQ(out, Slice(spec, 1, 3, 1, 1));
}

// Models that were trained before depend on it.
TEST(Init, UniformValuesAreDrawsOfTheirElements) {
  const ParamSpec spec = {"w", {40, 50}, InitKind::kUniform, 0.3};
  const CounterRandom random(7, RandomUse::kInit, 3);
  for (const uint64_t begin : {0, 5, 1990}) {
    const std::vector<float> values = Slice(spec, begin, 2000 - begin, 7, 3);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i], static_cast<float>(0.3 * (2 * random.Uniform(begin + i) - 1)));
    }
  }
}

TEST(Init, UniformFillsItsRange) {
  float low = 0;
  float high = 0;
  for (float x : Slice({"w", {10000}, InitKind::kUniform, 0.5}, 0, 10000)) {
    low = std::min(low, x);
    high = std::max(high, x);
  }
  EXPECT_GE(low, -0.5f);
  EXPECT_LE(high, 0.5f);
  EXPECT_NEAR(high - low, 1.0f, 0.01f);
}

TEST(Init, NormalHasItsDeviation) {
  double squares = 0;
  for (float x : Slice({"w", {10000}, InitKind::kNormal, 0.5}, 0, 10000)) squares += x * x;
  EXPECT_NEAR(std::sqrt(squares / 10000), 0.5, 0.02);
}

TEST(Init, SeedAndParameterMatter) {
  const ParamSpec spec = {"w", {8}, InitKind::kUniform, 1};
  EXPECT_NE(Slice(spec, 0, 8, 1, 0), Slice(spec, 0, 8, 2, 0));
  EXPECT_NE(Slice(spec, 0, 8, 1, 0), Slice(spec, 0, 8, 1, 1));
}

TEST(InitDeathTest, OutsideTheParameterDies) {
  EXPECT_DEATH(Slice({"w", {8}, InitKind::kZero}, 5, 4), "elements");
}

std::vector<float> RowOf(const RowInit& init, uint64_t key, size_t n) {
  std::vector<float> row(n, -7.0f);
  InitRow(init, key, absl::MakeSpan(row));
  return row;
}

TEST(InitRow, DependsOnSeedTableAndKey) {
  const RowInit init = {.kind = InitKind::kUniform, .scale = 1, .seed = 1, .table = 2};
  RowInit other_seed = init, other_table = init;
  other_seed.seed = 2;
  other_table.table = 3;
  EXPECT_EQ(RowOf(init, 3, 16), RowOf(init, 3, 16));
  EXPECT_NE(RowOf(init, 3, 16), RowOf(init, 4, 16));
  EXPECT_NE(RowOf(init, 3, 16), RowOf(init, 3 + (uint64_t{1} << 32), 16));
  EXPECT_NE(RowOf(init, 3, 16), RowOf(other_seed, 3, 16));
  EXPECT_NE(RowOf(init, 3, 16), RowOf(other_table, 3, 16));
}

TEST(InitRow, AnElementDoesNotDependOnHowManyThereAre) {
  for (const InitKind kind : {InitKind::kUniform, InitKind::kNormal}) {
    const RowInit init = {.kind = kind, .scale = 0.5, .seed = 9};
    const std::vector<float> whole = RowOf(init, 77, 19);
    for (size_t n = 1; n < whole.size(); ++n) {
      EXPECT_EQ(RowOf(init, 77, n), std::vector<float>(whole.begin(), whole.begin() + n));
    }
  }
}

TEST(InitRow, ConstantsAreWhatTheySay) {
  EXPECT_EQ(RowOf({.kind = InitKind::kZero}, 1, 3), std::vector<float>({0, 0, 0}));
  EXPECT_EQ(RowOf({.kind = InitKind::kOne}, 1, 3), std::vector<float>({1, 1, 1}));
}

TEST(InitRow, MomentsAreThoseOfTheDistribution) {
  for (const InitKind kind : {InitKind::kUniform, InitKind::kNormal}) {
    double sum = 0, squares = 0, least = 0, most = 0;
    constexpr size_t kKeys = 5000, kDim = 16;
    for (uint64_t key = 0; key < kKeys; ++key) {
      for (const float value : RowOf({.kind = kind, .scale = 0.5, .seed = 3}, key, kDim)) {
        sum += value;
        squares += value * value;
        least = std::min<double>(least, value);
        most = std::max<double>(most, value);
      }
    }
    const double n = kKeys * kDim;
    EXPECT_NEAR(sum / n, 0, 0.01);
    EXPECT_NEAR(squares / n, kind == InitKind::kUniform ? 0.25 / 3 : 0.25, 0.005);
    if (kind == InitKind::kUniform) {
      EXPECT_GE(least, -0.5);
      EXPECT_LE(most, 0.5);
    } else {
      EXPECT_LT(least, -1.5);
      EXPECT_GT(most, 1.5);
    }
  }
}

}  // namespace
}  // namespace soapstone::compute
