#include "transport/tcp/send_window.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

constexpr Nanos kMicrosecond = 1000;

// A link that carries `bytes_per_s`, whose sender fills the window whenever it is woken.
class Link {
 public:
  explicit Link(double bytes_per_s, Nanos round_trip = 100 * kMicrosecond)
      : bytes_per_s_(bytes_per_s), round_trip_(round_trip) {}

  void SetRate(double bytes_per_s) { bytes_per_s_ = bytes_per_s; }

  // The sender sleeps so long, looks, and fills the window. `full`: the kernel's, without one.
  void Sleep(Nanos time, uint64_t full = 4 << 20) {
    now_ += time;
    const auto could = static_cast<uint64_t>(bytes_per_s_ * static_cast<double>(time) / kSecond);
    const uint64_t arrived = std::min(could, outstanding_);
    acknowledged_ += arrived;
    outstanding_ -= arrived;
    changes_ += window_.OnLook({.now = now_,
                                .acknowledged = acknowledged_,
                                .outstanding = outstanding_,
                                .round_trip_min = round_trip_})
                    ? 1
                    : 0;
    outstanding_ = std::max(outstanding_, window_.bounded() ? window_.bytes() : full);
  }
  void SleepFor(Nanos each, Nanos total) {
    for (Nanos slept = 0; slept < total; slept += each) Sleep(each);
  }

  SendWindow& window() { return window_; }
  int changes() const { return changes_; }
  uint64_t acknowledged() const { return acknowledged_; }

 private:
  double bytes_per_s_;
  Nanos round_trip_;
  Nanos now_ = kSecond;
  uint64_t acknowledged_ = 0;
  uint64_t outstanding_ = 0;
  int changes_ = 0;
  SendWindow window_;
};

TEST(SendWindowTest, IsTheRateTimesTheDelay) {
  Link link(125e6);
  link.Sleep(kMillisecond);
  EXPECT_FALSE(link.window().bounded());
  EXPECT_EQ(link.window().bytes_per_s(), 0);
  link.SleepFor(300 * kMicrosecond, kSecond);
  EXPECT_NEAR(link.window().bytes_per_s(), 125e6, 1e5);
  EXPECT_TRUE(link.window().bounded());
  // 1.1 ms of the link, and what counts as no change.
  EXPECT_GT(link.window().bytes(), 137'500u * 7 / 8);
  EXPECT_LT(link.window().bytes(), 137'500u * 8 / 7);
  EXPECT_NEAR(static_cast<double>(link.window().slack_bytes()), 125'000, 1000);
}

TEST(SendWindowTest, AFastLinkIsNotBounded) {
  Link link(5e9);
  link.SleepFor(100 * kMicrosecond, kSecond);
  EXPECT_NEAR(link.window().bytes_per_s(), 5e9, 1e8);
  EXPECT_FALSE(link.window().bounded());
  EXPECT_EQ(link.changes(), 0);
}

TEST(SendWindowTest, ALongWayIsNotBoundedButTheBytesInFrontOfItAre) {
  Link link(125e6, 50 * kMillisecond);
  link.SleepFor(300 * kMicrosecond, kSecond);
  EXPECT_FALSE(link.window().bounded());
  EXPECT_NEAR(static_cast<double>(link.window().slack_bytes()), 125'000, 1000);
}

TEST(SendWindowTest, ASlowLinkHasASmallestWindow) {
  Link link(1e6);
  link.SleepFor(kMillisecond, kSecond);
  EXPECT_EQ(link.window().bytes(), SendWindowOptions().bytes_min);
  EXPECT_EQ(link.window().slack_bytes(), SendWindowOptions().bytes_min);
}

// Loopback sends 64 KiB at a time; of a window with two of those none is acknowledged at once.
TEST(SendWindowTest, LargeSegmentsNeedALargeWindow) {
  SendWindow window;
  for (int i = 0; i < 100; ++i) {
    window.OnLook({.now = i * 40 * kMillisecond,
                   .acknowledged = static_cast<uint64_t>(i) << 16,
                   .outstanding = 1 << 16,
                   .segment_bytes = 1 << 16});
  }
  EXPECT_TRUE(window.bounded());
  EXPECT_EQ(window.bytes(), uint64_t{8} << 16);
}

TEST(SendWindowTest, ASenderThatIsWokenLateIsGivenMore) {
  Link link(125e6);
  link.SleepFor(300 * kMicrosecond, kSecond);
  const uint64_t before = link.acknowledged();
  const uint64_t prompt = link.window().bytes();
  link.SleepFor(3 * kMillisecond, kSecond);
  // A window of 1.1 ms would leave the link idle for two thirds of the time.
  EXPECT_GT(static_cast<double>(link.acknowledged() - before), 0.9 * 125e6);
  EXPECT_GT(link.window().bytes(), 2 * prompt);
  EXPECT_NEAR(link.window().bytes_per_s(), 125e6, 1e6);
  link.SleepFor(300 * kMicrosecond, kSecond);
  EXPECT_LT(link.window().bytes(), prompt * 8 / 7);
}

TEST(SendWindowTest, FollowsTheLinkBothWays) {
  Link link(125e6);
  link.SleepFor(300 * kMicrosecond, kSecond);
  link.SetRate(500e6);
  link.SleepFor(100 * kMicrosecond, kSecond);
  EXPECT_NEAR(link.window().bytes_per_s(), 500e6, 1e7);
  link.SetRate(60e6);
  link.SleepFor(300 * kMicrosecond, kSecond);
  EXPECT_NEAR(link.window().bytes_per_s(), 60e6, 1e6);
  EXPECT_LT(link.window().bytes(), 80'000u);
}

TEST(SendWindowTest, TimeWithNothingToSendDoesNotCount) {
  Link link(125e6);
  link.SleepFor(300 * kMicrosecond, kSecond);
  for (int i = 0; i < 100; ++i) {
    link.window().OnIdle();
    link.Sleep(kSecond);
  }
  EXPECT_NEAR(link.window().bytes_per_s(), 125e6, 1e5);
}

TEST(SendWindowTest, SmallChangesAreNone) {
  Link link(125e6);
  link.SleepFor(300 * kMicrosecond, kSecond);
  const int changes = link.changes();
  for (int i = 0; i < 100; ++i) {
    link.SetRate(i % 2 == 0 ? 120e6 : 130e6);
    link.SleepFor(300 * kMicrosecond, 20 * kMillisecond);
  }
  EXPECT_LE(link.changes(), changes + 1);
}

}  // namespace
}  // namespace soapstone::transport
