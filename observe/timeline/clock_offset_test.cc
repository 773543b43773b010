#include "observe/timeline/clock_offset.h"

#include <limits>

#include "gtest/gtest.h"

namespace soapstone::timeline {
namespace {

// The other clock is ahead by `kAhead`; messages take 20 us and up to 1 ms more.
constexpr Nanos kAhead = 7 * kSecond;

TEST(ClockOffsetTest, IsBetweenTheFastestMessages) {
  ClockOffset offset;
  Nanos now = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    const Nanos forth = 20'000 + static_cast<Nanos>((i * 7919) % 1'000'003);
    const Nanos back = 20'000 + static_cast<Nanos>((i * 104'729) % 999'983);
    offset.Forth(now, now + forth + kAhead);
    offset.Back(now + kAhead, now + back);
    now += kMillisecond;
  }
  ASSERT_TRUE(offset.forth().has_value() && offset.back().has_value());
  EXPECT_LE(kAhead, *offset.forth());
  EXPECT_GE(kAhead, -*offset.back());
  EXPECT_LE(*offset.forth() + *offset.back(), 2 * (20'000 + 10'000)) << "the fastest ones count";
}

TEST(ClockOffsetTest, DropsTimesThatNobodyHas) {
  constexpr Nanos kMost = std::numeric_limits<Nanos>::max();
  ClockOffset offset;
  offset.Forth(-kMost, kMost);
  offset.Forth(kMost, -kMost);
  offset.Back(-kMost, -kMost);
  EXPECT_FALSE(offset.forth().has_value());
  EXPECT_FALSE(offset.back().has_value());
}

}  // namespace
}  // namespace soapstone::timeline
