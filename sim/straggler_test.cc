#include "sim/straggler.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::sim {
namespace {

using ::testing::HasSubstr;

StragglerModel Model(std::string_view text, uint64_t seed = 1) {
  return *StragglerModel::Parse(text, seed);
}

double MeanFactor(const StragglerModel& model, int draws) {
  double sum = 0;
  for (int i = 0; i < draws; ++i) sum += model.Factor(WorkerId(i % 8), i / 8);
  return sum / draws;
}

TEST(StragglerTest, NoneIsOne) { EXPECT_EQ(Model("none").Factor(WorkerId{3}, 7), 1.0); }

TEST(StragglerTest, JitterIsLognormalWithMeanOne) {
  const StragglerModel model = Model("jitter:sigma=0.2");
  double log_sum = 0, log_squares = 0;
  constexpr int kDraws = 40'000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = std::log(model.Factor(WorkerId(i % 8), i / 8));
    log_sum += x;
    log_squares += x * x;
  }
  const double mean = log_sum / kDraws;
  EXPECT_NEAR(mean, -0.02, 0.004);
  EXPECT_NEAR(std::sqrt(log_squares / kDraws - mean * mean), 0.2, 0.004);
  EXPECT_NEAR(MeanFactor(model, kDraws), 1, 0.004);
}

TEST(StragglerTest, StallHitsWithItsProbability) {
  EXPECT_NEAR(MeanFactor(Model("stall:p=0.02,factor=6"), 40'000), 1 + 0.02 * 5, 0.02);
}

TEST(StragglerTest, SlowIsPersistentForTheFirstWorkers) {
  const StragglerModel model = Model("slow:workers=2,factor=3");
  for (Clock c = 0; c < 10; ++c) {
    EXPECT_EQ(model.Factor(WorkerId{0}, c), 3);
    EXPECT_EQ(model.Factor(WorkerId{1}, c), 3);
    EXPECT_EQ(model.Factor(WorkerId{2}, c), 1);
  }
}

TEST(StragglerTest, JoinedModelsMultiply) {
  const StragglerModel jitter = Model("jitter:sigma=0.3");
  const StragglerModel both = Model("jitter:sigma=0.3+slow:workers=1,factor=2");
  EXPECT_EQ(both.Factor(WorkerId{0}, 5), 2 * jitter.Factor(WorkerId{0}, 5));
  EXPECT_EQ(both.Factor(WorkerId{1}, 5), jitter.Factor(WorkerId{1}, 5));
}

TEST(StragglerTest, ADrawDependsOnSeedWorkerAndClockAlone) {
  const StragglerModel model = Model("jitter:sigma=0.2");
  EXPECT_EQ(model.Factor(WorkerId{4}, 9), Model("jitter:sigma=0.2").Factor(WorkerId{4}, 9));
  EXPECT_NE(model.Factor(WorkerId{4}, 9), model.Factor(WorkerId{4}, 10));
  EXPECT_NE(model.Factor(WorkerId{4}, 9), model.Factor(WorkerId{5}, 9));
  EXPECT_NE(model.Factor(WorkerId{4}, 9), Model("jitter:sigma=0.2", 2).Factor(WorkerId{4}, 9));
}

TEST(StragglerTest, ErrorsSayWhatThereIs) {
  const auto error = [](std::string_view text) {
    return std::string(StragglerModel::Parse(text, 1).status().message());
  };
  EXPECT_THAT(error("slwo"), HasSubstr("there are none, jitter:sigma=S, stall:p=P,factor=F"));
  EXPECT_THAT(error("jitter:s=1"), HasSubstr("it takes sigma"));
  EXPECT_THAT(error("stall:p=0.1"), HasSubstr("stall needs factor"));
  EXPECT_THAT(error("stall:p=2,factor=6"), HasSubstr("outside"));
  EXPECT_FALSE(StragglerModel::Parse("", 1).ok());
}

}  // namespace
}  // namespace soapstone::sim
