#include "compute/init.h"

#include <cmath>
#include <vector>

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

}  // namespace
}  // namespace soapstone::compute
