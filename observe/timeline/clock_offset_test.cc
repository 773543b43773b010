#include "observe/timeline/clock_offset.h"

#include <limits>

#include "gtest/gtest.h"

namespace soapstone::timeline {
namespace {

// The other clock is ahead by `kAhead`; messages take 20 us and up to 1 ms more.
constexpr Nanos kAhead = 7 * kSecond;

TEST(ClockOffsetTest, IsWithinItsError) {
  ClockOffset offset;
  Nanos now = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    const Nanos forth = 20'000 + static_cast<Nanos>((i * 7919) % 1'000'003);
    const Nanos back = 20'000 + static_cast<Nanos>((i * 104'729) % 999'983);
    offset.Forth(now, now + forth + kAhead);
    offset.Back(now + kAhead, now + back);
    now += kMillisecond;
  }
  const auto estimate = offset.estimate();
  ASSERT_TRUE(estimate.has_value());
  EXPECT_LE(estimate->error, 20'000 + 10'000) << "the fastest messages count";
  EXPECT_GE(estimate->offset, kAhead - estimate->error);
  EXPECT_LE(estimate->offset, kAhead + estimate->error);
}

TEST(ClockOffsetTest, OneWayTellsNothing) {
  ClockOffset offset;
  offset.Forth(0, kSecond);
  EXPECT_FALSE(offset.estimate().has_value());
  offset.Back(kSecond, 0);
  EXPECT_TRUE(offset.estimate().has_value());
}

TEST(ClockOffsetTest, DropsTimesThatNobodyHas) {
  constexpr Nanos kMost = std::numeric_limits<Nanos>::max();
  ClockOffset offset;
  offset.Forth(-kMost, kMost);
  offset.Forth(kMost, -kMost);
  offset.Back(-kMost, -kMost);
  EXPECT_FALSE(offset.estimate().has_value());
}

}  // namespace
}  // namespace soapstone::timeline
