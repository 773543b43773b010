#include "experiment/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace soapstone::experiment {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Accuracy 0.1, 0.2, ... at 1, 2, ... seconds times `pace`; 100 bytes a point.
RunOutcome Line(int points, double pace) {
  RunOutcome outcome;
  for (int i = 1; i <= points; ++i) {
    outcome.curve.push_back({.time_s = pace * i,
                             .samples = static_cast<uint64_t>(10 * i),
                             .test_accuracy = 0.1 * i,
                             .bytes = static_cast<uint64_t>(100 * i)});
  }
  outcome.duration_s = pace * points;
  outcome.bytes = static_cast<uint64_t>(100 * points);
  return outcome;
}

TEST(Median, OfOddEvenNoneAndInfinite) {
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
  EXPECT_TRUE(std::isnan(Median({})));
  EXPECT_EQ(Median({1, kInfinity, kInfinity}), kInfinity);
  EXPECT_EQ(Median({1, 2, kInfinity}), 2);
}

TEST(Bootstrap, HoldsTheMedianAndDoesNotDependOnOrder) {
  const std::vector<double> values = {5, 1, 4, 2, 3};
  const Estimate estimate = BootstrapMedian(values, 7);
  EXPECT_EQ(estimate.median, 3);
  EXPECT_GE(estimate.low, 1);
  EXPECT_LE(estimate.low, 2);
  EXPECT_GE(estimate.high, 4);
  EXPECT_LE(estimate.high, 5);
  EXPECT_EQ(BootstrapMedian(values, 7).low, estimate.low);
}

TEST(Bootstrap, OfOneValueThereIsNoInterval) {
  const Estimate estimate = BootstrapMedian({5.0}, 7);
  EXPECT_EQ(estimate.median, 5);
  EXPECT_TRUE(std::isnan(estimate.low));
}

// With n equal values among them the interval of the median covers it in about 95% of draws: here,
// of samples of 15 uniforms, whose median is 0.5.
TEST(Bootstrap, CoversTheTrueMedian) {
  int covered = 0;
  constexpr int kTrials = 200;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> values;
    for (int i = 0; i < 15; ++i) {
      const double x = std::sin(12.9898 * (trial * 15 + i + 1)) * 43758.5453;
      values.push_back(x - std::floor(x));
    }
    const Estimate estimate = BootstrapMedian(values, static_cast<uint64_t>(trial));
    if (estimate.low <= 0.5 && 0.5 <= estimate.high) ++covered;
  }
  EXPECT_GE(covered, kTrials * 90 / 100);
  EXPECT_LT(covered, kTrials);
}

TEST(CostToTarget, IsLinearBetweenPoints) {
  const Cost time = CostToTarget(Line(10, 2), 0.25, Claim::time);
  EXPECT_TRUE(time.reached);
  EXPECT_NEAR(time.value, 5, 1e-9);
  EXPECT_NEAR(CostToTarget(Line(10, 2), 0.25, Claim::bytes).value, 250, 1e-9);
  EXPECT_NEAR(CostToTarget(Line(10, 2), 0.05, Claim::time).value, 2, 1e-9);  // the first point
}

TEST(CostToTarget, ARunThatDoesNotReachItIsKeptWithAllItSpent) {
  const Cost cost = CostToTarget(Line(5, 2), 0.8, Claim::time);
  EXPECT_FALSE(cost.reached);
  EXPECT_EQ(cost.value, 10);
  EXPECT_EQ(ValueOf(cost), kInfinity);
}

TEST(CostToTarget, WithoutACurveTheEndCounts) {
  RunOutcome outcome{.test_accuracy = 0.9, .duration_s = 7};
  EXPECT_EQ(CostToTarget(outcome, 0.8, Claim::time), (Cost{true, 7}));
  EXPECT_FALSE(CostToTarget(outcome, 0.95, Claim::time).reached);
}

TEST(PairedRatio, OfReachedPairsIsTheMedianRatio) {
  const std::vector<Cost> faster = {{true, 1}, {true, 2}, {true, 4}};
  const std::vector<Cost> than = {{true, 2}, {true, 4}, {true, 8}};
  const RatioEstimate ratio = PairedRatio(faster, than, 1);
  EXPECT_EQ(ratio.low(), 2);
  EXPECT_EQ(ratio.high(), 2);
}

TEST(PairedRatio, WhatIsNotReachedWidensTheInterval) {
  const std::vector<Cost> reached(5, {true, 2}), not_reached(5, {false, 6});
  const RatioEstimate ahead = PairedRatio(reached, not_reached, 1);
  EXPECT_EQ(ahead.low(), 3);  // at least 6 / 2
  EXPECT_EQ(ahead.high(), kInfinity);
  const RatioEstimate behind = PairedRatio(not_reached, reached, 1);
  EXPECT_EQ(behind.low(), 0);
  EXPECT_NEAR(behind.high(), 1.0 / 3, 1e-12);
  const RatioEstimate neither = PairedRatio(not_reached, not_reached, 1);
  EXPECT_EQ(neither.low(), 0);
  EXPECT_EQ(neither.high(), kInfinity);
}

TEST(PairedRatio, OneLuckySeedOfFiveDoesNotDecide) {
  const std::vector<Cost> faster = {{true, 1}, {true, 10}, {true, 10}, {true, 11}, {true, 9}};
  const std::vector<Cost> than(5, {true, 10});
  EXPECT_LE(PairedRatio(faster, than, 1).low(), 1);
}

TEST(AccuracyBand, HoldsEveryRunToTheEnd) {
  const RunOutcome quick = Line(10, 1), slow = Line(10, 2);
  const Band band = AccuracyBand({&quick, &slow}, Claim::time, 1);
  ASSERT_GE(band.at.size(), 19u);
  EXPECT_EQ(band.at.front(), 2);  // the slow one's first point
  EXPECT_NEAR(band.low.front(), 0.1, 1e-9);
  EXPECT_NEAR(band.high.front(), 0.2, 1e-9);
  EXPECT_NEAR(band.low.back(), 1, 1e-9);
  EXPECT_GE(band.at.back(), 20);
}

TEST(AccuracyBand, IsEmptyWithoutCurves) {
  const RunOutcome none;
  EXPECT_TRUE(AccuracyBand({&none}, Claim::time, 1).at.empty());
  EXPECT_TRUE(AccuracyBand({}, Claim::time, 1).at.empty());
}

}  // namespace
}  // namespace soapstone::experiment
