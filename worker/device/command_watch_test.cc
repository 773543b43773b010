#include "worker/device/command_watch.h"

#include "gtest/gtest.h"

namespace soapstone::worker {
namespace {

constexpr Nanos kFloor = 5 * kSecond;
constexpr Nanos kLookEvery = kSecond;

class CommandWatchTest : public ::testing::Test {
 protected:
  // `count` commands of that duration, one after the other.
  void Run(int count, Nanos duration, const DeviceWork& work = RunForward{.op = 3}) {
    for (int i = 0; i < count; ++i) {
      watch_.Begin(now_, work);
      now_ += duration;
      watch_.End(now_);
    }
  }

  // Looks each second, for so long; the first thing said of that kind, and when.
  std::optional<Nanos> SaidAfter(Nanos at_most, bool hung, uint64_t waiting = 1) {
    const Nanos began = now_;
    while (now_ - began < at_most) {
      now_ += kLookEvery;
      said_ = watch_.Look(now_, waiting);
      if (said_.has_value() && said_->hung == hung) return now_ - began;
    }
    return std::nullopt;
  }

  CommandWatch watch_{kFloor, kLookEvery};
  Nanos now_ = 1000 * kSecond;
  std::optional<Overdue> said_;
};

TEST_F(CommandWatchTest, ACommandThatNeverEndsIsSlowAfterTheFloorAndHungAfterFour) {
  Run(3, kMillisecond);
  watch_.Begin(now_, RunForward{.op = 3});
  EXPECT_EQ(SaidAfter(100 * kSecond, /*hung=*/false), 6 * kSecond);
  EXPECT_EQ(said_->what, (WorkKind{"forward", 3u}));
  EXPECT_EQ(said_->median_ns, kMillisecond);
  EXPECT_EQ(SaidAfter(100 * kSecond, /*hung=*/true), 15 * kSecond);  // 21 s in all
  EXPECT_EQ(said_->for_ns, 21 * kSecond);
}

TEST_F(CommandWatchTest, SlowIsSaidOnce) {
  Run(3, kMillisecond);
  watch_.Begin(now_, RunForward{.op = 3});
  ASSERT_TRUE(SaidAfter(10 * kSecond, /*hung=*/false).has_value());
  EXPECT_FALSE(SaidAfter(10 * kSecond, /*hung=*/false).has_value());
}

TEST_F(CommandWatchTest, AnOperatorThatAlwaysTakesLongHasLonger) {
  Run(5, 4 * kSecond);
  watch_.Begin(now_, RunForward{.op = 3});
  EXPECT_EQ(SaidAfter(200 * kSecond, /*hung=*/false), 33 * kSecond);
  EXPECT_EQ(SaidAfter(200 * kSecond, /*hung=*/true), 96 * kSecond);
}

TEST_F(CommandWatchTest, TheMedianIsOfTheSameOperator) {
  Run(5, 4 * kSecond, RunBackward{.op = 3});
  Run(5, 4 * kSecond, RunForward{.op = 2});
  Run(5, kMillisecond);
  watch_.Begin(now_, RunForward{.op = 3});
  EXPECT_EQ(SaidAfter(200 * kSecond, /*hung=*/true), 21 * kSecond);
}

// The first of its kind compiles, or measures algorithms.
TEST_F(CommandWatchTest, WhatIsDoneForTheFirstTimeHasTwelveFloors) {
  watch_.Begin(now_, RunForward{.op = 3});
  EXPECT_EQ(SaidAfter(200 * kSecond, /*hung=*/true), 61 * kSecond);
  EXPECT_EQ(said_->median_ns, -1);
}

TEST_F(CommandWatchTest, TheEvaluationIsNeverHung) {
  watch_.Begin(now_, EvaluateModel{});
  EXPECT_FALSE(SaidAfter(5000 * kSecond, /*hung=*/true).has_value());
}

TEST_F(CommandWatchTest, CommandsThatWaitForADeviceThatTakesNoneAreHung) {
  Run(3, kMillisecond);
  EXPECT_FALSE(watch_.Look(now_, 1).has_value());
  EXPECT_EQ(SaidAfter(200 * kSecond, /*hung=*/true), 21 * kSecond);
  EXPECT_FALSE(said_->taken);
}

TEST_F(CommandWatchTest, WhatWaitsFromTheBeginningHasWaitedSinceTheFirstLook) {
  EXPECT_EQ(SaidAfter(200 * kSecond, /*hung=*/true), 22 * kSecond);
}

TEST_F(CommandWatchTest, ADeviceWithNothingToDoIsNotHung) {
  Run(3, kMillisecond);
  EXPECT_FALSE(SaidAfter(200 * kSecond, /*hung=*/true, /*waiting=*/0).has_value());
  // Nor is it afterwards, for the time before.
  EXPECT_EQ(SaidAfter(200 * kSecond, /*hung=*/true, /*waiting=*/1), 21 * kSecond);
}

TEST_F(CommandWatchTest, TimeInWhichNobodyLookedIsLeftOut) {
  Run(3, kMillisecond);
  watch_.Begin(now_, RunForward{.op = 3});
  EXPECT_FALSE(SaidAfter(3 * kSecond, /*hung=*/true).has_value());
  now_ += 3600 * kSecond;  // suspended
  EXPECT_FALSE(watch_.Look(now_, 1).has_value());
  EXPECT_EQ(SaidAfter(200 * kSecond, /*hung=*/true), 18 * kSecond);
}

TEST_F(CommandWatchTest, LooksThatAreLateLookAllTheSame) {
  Run(3, kMillisecond);
  watch_.Begin(now_, RunForward{.op = 3});
  std::optional<Overdue> said;
  for (int look = 0; look < 8 && (!said.has_value() || !said->hung); ++look) {
    now_ += 3 * kLookEvery;
    said = watch_.Look(now_, 1);
  }
  ASSERT_TRUE(said.has_value());
  EXPECT_TRUE(said->hung);
  EXPECT_EQ(said->for_ns, 21 * kSecond);
}

TEST_F(CommandWatchTest, ARestIsNoWork) {
  Run(3, kMillisecond);
  watch_.Begin(now_, RunForward{.op = 3});
  EXPECT_FALSE(SaidAfter(3 * kSecond, /*hung=*/true).has_value());
  watch_.BeginRest(now_);
  EXPECT_FALSE(SaidAfter(500 * kSecond, /*hung=*/true).has_value());
  EXPECT_FALSE(SaidAfter(500 * kSecond, /*hung=*/false).has_value());
  watch_.EndRest(now_);
  EXPECT_EQ(SaidAfter(200 * kSecond, /*hung=*/true), 18 * kSecond);
}

}  // namespace
}  // namespace soapstone::worker
