#include "experiment/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <string>

#include "base/random.h"

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
                             .bytes = 100 * static_cast<uint64_t>(i)});
  }
  outcome.duration_s = pace * points;
  outcome.bytes = 100 * static_cast<uint64_t>(points);
  return outcome;
}

TEST(Median, OfOddEvenNoneAndInfinite) {
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
  EXPECT_TRUE(std::isnan(Median({})));
  EXPECT_EQ(Median({1, kInfinity, kInfinity}), kInfinity);
  EXPECT_EQ(Median({1, 2, kInfinity}), 2);
}

TEST(Median, NotANumberIsTheWorst) {
  EXPECT_EQ(Median({std::nan(""), 1, 2}), 2);
  EXPECT_TRUE(std::isnan(Median({std::nan(""), std::nan(""), 2})));
}

TEST(MedianEstimate, OfFewValuesIsTheirRange) {
  const Estimate one = MedianEstimate({5});
  EXPECT_EQ(one.median, 5);
  EXPECT_TRUE(std::isnan(one.low));
  const Estimate five = MedianEstimate({5, 1, 4, 2, 3});
  EXPECT_FALSE(five.is_interval());
  EXPECT_EQ(five.low, 1);
  EXPECT_EQ(five.high, 5);
}

// P(B <= 1) of 9 throws is 10 / 512 = 0.0195, of 8 it is 9 / 256 = 0.0352.
TEST(MedianEstimate, CutsWhatIsOutsideOf95Percent) {
  const Estimate eight = MedianEstimate({8, 7, 6, 5, 4, 3, 2, 1});
  EXPECT_TRUE(eight.is_interval());
  EXPECT_EQ(eight.low, 1);
  EXPECT_EQ(eight.high, 8);
  const Estimate nine = MedianEstimate({9, 8, 7, 6, 5, 4, 3, 2, 1});
  EXPECT_EQ(nine.low, 2);
  EXPECT_EQ(nine.high, 8);
  EXPECT_EQ(MedianEstimate({1, 1, 1, 1, 1, 1, kInfinity, kInfinity, kInfinity}).high, kInfinity);
}

// Distributions with their medians: normal, lognormal, two peaks of the same and of unequal weight.
double Draw(int kind, const CounterRandom& random, uint64_t i) {
  const double z = random.Normal(2 * i);
  if (kind == 0) return z;
  if (kind == 1) return std::exp(z);
  return z + (random.Uniform(2 * i + 1) < (kind == 2 ? 0.5 : 0.6) ? -3 : 3);
}
constexpr double kMedians[] = {0, 1, 0, -2.0326};  // the last: 0.6 F(x + 3) + 0.4 F(x - 3) = 1/2

// Of 10,000 samples of n, the share whose interval holds the median of what they are drawn from.
// `more`: values that are cut from each end beyond what the interval cuts.
double Coverage(int kind, size_t n, size_t more) {
  constexpr int kSamples = 10'000;
  const CounterRandom random(static_cast<uint64_t>(kind), RandomUse::kTest, n);
  int covered = 0;
  std::vector<double> values(n);
  for (int sample = 0; sample < kSamples; ++sample) {
    for (size_t i = 0; i < n; ++i) {
      values[i] = Draw(kind, random, static_cast<uint64_t>(sample) * n + i);
    }
    Estimate estimate = MedianEstimate(values);
    std::sort(values.begin(), values.end());
    for (size_t cut = 0; cut < more; ++cut) {
      estimate.low = *std::upper_bound(values.begin(), values.end(), estimate.low);
      estimate.high = *(std::lower_bound(values.begin(), values.end(), estimate.high) - 1);
    }
    if (estimate.low <= kMedians[kind] && kMedians[kind] <= estimate.high) ++covered;
  }
  return static_cast<double>(covered) / kSamples;
}

TEST(MedianEstimate, CoversTheMedianIn94PercentOfDrawsOrMore) {
  double least = 1;
  for (int kind = 0; kind < 4; ++kind) {
    for (size_t n = kIntervalMin; n <= 20; ++n) {
      const double covered = Coverage(kind, n, 0);
      EXPECT_GE(covered, 0.94) << kind << " " << n;
      least = std::min(least, covered);
    }
  }
  RecordProperty("least_coverage", std::to_string(least));
  std::cout << "least coverage: " << least << "\n";
}

TEST(MedianEstimate, MutantOneValueNarrowerDoesNot) {
  for (int kind = 0; kind < 4; ++kind) {
    double least = 1;
    for (size_t n = kIntervalMin; n <= 20; ++n) least = std::min(least, Coverage(kind, n, 1));
    EXPECT_LT(least, 0.9);
  }
}

TEST(SignFlipP, IsTheShareOfSignsThatComeAsFar) {
  EXPECT_EQ(SignFlipP({}), 1);
  EXPECT_EQ(SignFlipP({1.0, 1, 1, 1, 1, 1}), 1.0 / 32);  // 2^(1-6)
  EXPECT_EQ(SignFlipP({3.0, 2, -1}), 4.0 / 8);           // +-(3, 2, 1), +-(3, 2, -1)
  EXPECT_EQ(SignFlipP({-1.0, -1, -1}), 2.0 / 8);
  EXPECT_EQ(SignFlipP({0.1, 0.2, 0.3, 0}), 4.0 / 16);
  EXPECT_EQ(SignFlipP({1.0, kInfinity}), 1);
  EXPECT_EQ(SignFlipP({1.0, std::nan("")}), 1);
}

TEST(SignFlipP, FallsAsADifferenceGrows) {
  double before = 1;
  for (const double last : {-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0}) {
    const double p = SignFlipP({1.0, 2, 0.5, 1.5, last});
    EXPECT_LE(p, before) << last;
    before = p;
  }
}

TEST(SignFlipP, OfManyValuesCountsSigns) {
  const std::vector<double> all(kFlipsMax + 8, 0.1);
  EXPECT_NEAR(SignFlipP(all), std::pow(0.5, kFlipsMax + 7), 1e-15);
}

// Under the hypothesis p is below the level in no more than that share of draws.
TEST(SignFlipP, KeepsItsLevel) {
  const CounterRandom random(5, RandomUse::kTest);
  int refused = 0;
  constexpr int kSamples = 4000;
  for (uint64_t sample = 0; sample < kSamples; ++sample) {
    std::vector<double> values(9);
    for (uint64_t i = 0; i < 9; ++i) values[i] = std::pow(random.Normal(sample * 9 + i), 3);
    if (SignFlipP(values) <= kLevel) ++refused;
  }
  EXPECT_LE(refused, kSamples * 6 / 100);
  EXPECT_GT(refused, kSamples * 2 / 100);
}

TEST(Holm, MultipliesByTheNumberThatAreLeftAndNeverFalls) {
  EXPECT_EQ(Holm({}), std::vector<double>{});
  const std::vector<double> corrected = Holm({0.5, 0.25, 0.0625, 0.125});
  EXPECT_EQ(corrected, (std::vector<double>{0.5, 0.5, 0.25, 0.375}));
  EXPECT_EQ(Holm({0.5, 0.75}), (std::vector<double>{1, 1}));
}

TEST(SeedsNeeded, IsOnePlusTheLogarithmOfTwentyTimesTheClaims) {
  EXPECT_EQ(SeedsNeeded(0), 6u);
  for (size_t claims = 1; claims <= 100; ++claims) {
    const auto wanted =
        static_cast<size_t>(std::ceil(1 + std::log2(20 * static_cast<double>(claims)) - 1e-12));
    EXPECT_EQ(SeedsNeeded(claims), wanted) << claims;
  }
  EXPECT_EQ(SeedsNeeded(1), 6u);
  EXPECT_EQ(SeedsNeeded(10), 9u);
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
  const RatioEstimate ratio = PairedRatio(faster, than);
  EXPECT_EQ(ratio.low(), 2);
  EXPECT_EQ(ratio.high(), 2);
}

TEST(PairedRatio, WhatIsNotReachedWidensTheInterval) {
  const std::vector<Cost> reached(5, {true, 2}), not_reached(5, {false, 6});
  const RatioEstimate ahead = PairedRatio(reached, not_reached);
  EXPECT_EQ(ahead.low(), 3);  // at least 6 / 2
  EXPECT_EQ(ahead.high(), kInfinity);
  const RatioEstimate behind = PairedRatio(not_reached, reached);
  EXPECT_EQ(behind.low(), 0);
  EXPECT_NEAR(behind.high(), 1.0 / 3, 1e-12);
  const RatioEstimate neither = PairedRatio(not_reached, not_reached);
  EXPECT_EQ(neither.low(), 0);
  EXPECT_EQ(neither.high(), kInfinity);
  EXPECT_EQ(neither.unknown, 5u);
}

TEST(PairedRatio, OneLuckySeedOfFiveDoesNotDecide) {
  const std::vector<Cost> faster = {{true, 1}, {true, 10}, {true, 10}, {true, 11}, {true, 9}};
  const std::vector<Cost> than(5, {true, 10});
  EXPECT_LE(PairedRatio(faster, than).low(), 1);
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
