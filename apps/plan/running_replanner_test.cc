#include "apps/plan/running_replanner.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr ReplanTimes kWorthIt = {.present_ns = 300 * kMillisecond,
                                  .found_ns = 150 * kMillisecond,
                                  .step_ns = 400 * kMillisecond,
                                  .stop_ns = 3 * kSecond,
                                  .left = 1000};

TEST(WhyNotReplannedTest, WhatIsHalfAsLongIsTaken) { EXPECT_EQ(WhyNotReplanned(kWorthIt), ""); }

TEST(WhyNotReplannedTest, ATenthLessIsNot) {
  ReplanTimes times = kWorthIt;
  times.found_ns = 275 * kMillisecond;
  EXPECT_THAT(WhyNotReplanned(times), HasSubstr("it gains less than 10%"));
  times.found_ns = 272 * kMillisecond;
  EXPECT_EQ(WhyNotReplanned(times), "");
}

// Half of 400 ms, 200 steps: 40 s; but of the steps that are left alone.
TEST(WhyNotReplannedTest, TheStopIsPaidBackInTime) {
  ReplanTimes times = kWorthIt;
  times.stop_ns = 39 * kSecond;
  EXPECT_EQ(WhyNotReplanned(times), "");
  times.stop_ns = 41 * kSecond;
  EXPECT_THAT(WhyNotReplanned(times),
              HasSubstr("200 steps would gain 40.0 s, and the stop takes 41"));
  times = kWorthIt;
  times.left = 14;
  EXPECT_THAT(WhyNotReplanned(times), HasSubstr("14 steps would gain 2.8 s"));
  times.left = 16;
  EXPECT_EQ(WhyNotReplanned(times), "");
}

TEST(WhyNotReplannedTest, OfNoKnownStepNothingIsGained) {
  ReplanTimes times = kWorthIt;
  times.step_ns = 0;
  EXPECT_NE(WhyNotReplanned(times), "");
}

TEST(SlownessOfSeatsTest, TheSlowestOfAllTeamsCounts) {
  EXPECT_THAT(SlownessOfSeats({1, 3, 1}, 3), ElementsAre(1, 3, 1));
  EXPECT_THAT(SlownessOfSeats({1, 3, 2, 1}, 2), ElementsAre(2, 3));
  EXPECT_THAT(SlownessOfSeats({0.3, 0.5}, 2), ElementsAre(0.3, 0.5));
}

}  // namespace
}  // namespace soapstone::apps
