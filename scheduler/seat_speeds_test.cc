#include "scheduler/seat_speeds.h"

#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::scheduler {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

// Two workers that report after each clock.
class SeatSpeedsTest : public testing::Test {
 protected:
  // Clocks of so many ms; what was told meanwhile, and when: in so many clocks.
  std::optional<std::vector<double>> Run(int clocks, double first_ms, double second_ms) {
    std::optional<std::vector<double>> told;
    for (int i = 0; i < clocks; ++i) {
      ++clock_;
      const double ms[] = {first_ms, second_ms};
      for (uint32_t w = 0; w < 2; ++w) {
        worked_[w] += static_cast<Nanos>(ms[w] * kMillisecond);
        wire::Progress progress = {.clock = clock_};
        progress.compute_ns = worked_[w] / 2;
        progress.injected_ns = worked_[w] - worked_[w] / 2;
        progress.blocked_ns = clock_ * kSecond;  // waiting is no work
        speeds_.Observe(WorkerId{w}, progress);
      }
      if (std::optional<std::vector<double>> now = speeds_.Take(); now.has_value()) {
        told = now;
        told_at_ = clock_;
      }
    }
    return told;
  }

  SeatSpeeds speeds_{2, 40};
  Clock clock_ = 40;
  Clock told_at_ = 0;
  Nanos worked_[2] = {};
};

TEST_F(SeatSpeedsTest, SlownessForGoodIsToldAfterTwentyClocks) {
  EXPECT_EQ(Run(60, 10, 20), std::nullopt);
  const std::optional<std::vector<double>> told = Run(24, 10, 60);
  ASSERT_TRUE(told.has_value());
  EXPECT_LE(told_at_, 100 + 24);
  EXPECT_THAT(*told, ElementsAre(1, DoubleNear(3, 0.01)));
}

TEST_F(SeatSpeedsTest, WhoBecomesFastIsToldToo) {
  Run(60, 30, 20);
  const std::optional<std::vector<double>> told = Run(24, 10, 20);
  ASSERT_TRUE(told.has_value());
  EXPECT_THAT(*told, ElementsAre(DoubleNear(1 / 3., 0.01), 1));
}

TEST_F(SeatSpeedsTest, WhatPassesIsNotTold) {
  Run(60, 10, 20);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Run(9, 40, 20), std::nullopt);
    EXPECT_EQ(Run(15, 10, 20), std::nullopt);
  }
}

TEST_F(SeatSpeedsTest, ALittleIsNotTold) {
  Run(60, 10, 20);
  EXPECT_EQ(Run(200, 12, 17), std::nullopt);
}

// It may be planned for by then; if not, it is worth another look.
TEST_F(SeatSpeedsTest, ItIsToldAgainAfterAsManyClocksMore) {
  Run(60, 10, 20);
  EXPECT_TRUE(Run(22, 10, 60).has_value());
  EXPECT_EQ(Run(15, 10, 60), std::nullopt);
  EXPECT_TRUE(Run(10, 10, 60).has_value());
}

TEST_F(SeatSpeedsTest, TheFirstStepsAreNoMeasure) {
  Run(4, 1000, 1000);  // kernels are prepared
  EXPECT_EQ(Run(300, 10, 20), std::nullopt);
}

TEST_F(SeatSpeedsTest, ASuccessorIsMeasuredAnew) {
  Run(60, 10, 20);
  worked_[1] = 0;
  EXPECT_EQ(Run(200, 10, 80), std::nullopt);
  EXPECT_TRUE(Run(30, 10, 200).has_value());
}

TEST_F(SeatSpeedsTest, AStrangerIsNotLookedAt) {
  speeds_.Observe(WorkerId{7}, {.clock = 50});
  EXPECT_EQ(speeds_.Take(), std::nullopt);
}

}  // namespace
}  // namespace soapstone::scheduler
