#include "worker/pull_watch.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/hand_played_engine.h"

namespace soapstone::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Nanos kPatience = 1000;

class PullWatchTest : public ::testing::Test {
 protected:
  PullWatchTest() : options_(Shared(SmallJob("easgd:tau=2", 1, 9))) {
    Begin(BuildExchange(options_->Inputs(), {0, 1}));
  }
  // Another run, whose pulls are all sent.
  void Begin(Program program, Clock clock = 0) {
    run_.emplace(std::make_shared<const Program>(std::move(program)), 1,
                 ProgramRun::Clocks{.step = clock, .shard = clock}, 2);
    while (run_->Next().has_value()) {
    }
    watch_.OnRunBegun();
  }
  bool IsSurplus(uint32_t shard, Clock clock) {
    return watch_.TakeSurplus(*run_, ShardId{shard}, AnswerOf(shard, clock, clock));
  }

  std::shared_ptr<const EngineOptions> options_;
  PullWatch watch_{kPatience, 2};
  std::optional<ProgramRun> run_;
};

TEST_F(PullWatchTest, OneTimerIsSetAtATime) {
  EXPECT_EQ(watch_.OnAsked(10, ShardId{0}), 10 + kPatience);
  EXPECT_EQ(watch_.OnAsked(20, ShardId{1}), std::nullopt);
  // The timer is moved to what is due next.
  run_->Answer(ShardId{0});
  const PullWatch::Repeats repeats = watch_.OnTimer(10 + kPatience, &*run_);
  EXPECT_THAT(repeats.shards, IsEmpty());
  EXPECT_EQ(repeats.timer, 20 + kPatience);
  EXPECT_EQ(watch_.OnAsked(30, ShardId{0}), std::nullopt);
  // None is set any more where nothing is waited for.
  run_->Answer(ShardId{1});
  EXPECT_EQ(watch_.OnTimer(20 + kPatience, &*run_).timer, std::nullopt);
  EXPECT_EQ(watch_.OnAsked(5000, ShardId{0}), 5000 + kPatience);
  EXPECT_EQ(watch_.OnTimer(6000, nullptr).timer, std::nullopt);
  EXPECT_EQ(watch_.OnAsked(7000, ShardId{0}), 7000 + kPatience);
}

TEST_F(PullWatchTest, ValuesAreAskedForAfterTwiceAsLongEachTimeUpToABound) {
  watch_.OnAsked(0, ShardId{0});
  watch_.OnAsked(0, ShardId{1});
  run_->Answer(ShardId{1});
  Nanos due = kPatience;
  for (Nanos patience = 2 * kPatience; patience < 100 * kPatience * PullWatch::kGrowth;
       patience *= 2) {
    EXPECT_THAT(watch_.OnTimer(due - 1, &*run_).shards, IsEmpty());
    const PullWatch::Repeats repeats = watch_.OnTimer(due, &*run_);
    EXPECT_THAT(repeats.shards, ElementsAre(ShardId{0}));
    EXPECT_EQ(repeats.timer, due + std::min(patience, PullWatch::kGrowth * kPatience));
    due = *repeats.timer;
  }
}

TEST_F(PullWatchTest, PatienceIsTwiceWhatAnswersTakeLately) {
  watch_.OnAsked(0, ShardId{1});
  watch_.OnAnswered(800, ShardId{1});
  run_->Answer(ShardId{1});
  watch_.OnAsked(800, ShardId{0});
  EXPECT_THAT(watch_.OnTimer(800 + 1600 - 1, &*run_).shards, IsEmpty());
  EXPECT_THAT(watch_.OnTimer(800 + 1600, &*run_).shards, ElementsAre(ShardId{0}));
  // Quick answers: it is forgotten, a quarter with each.
  Begin(BuildFlush(options_->Inputs()));
  run_->Answer(ShardId{1});
  for (int i = 0; i < 10; ++i) {
    watch_.OnAsked(10'000, ShardId{0});
    watch_.OnAnswered(10'001, ShardId{0});
  }
  watch_.OnAsked(10'000, ShardId{0});
  EXPECT_THAT(watch_.OnTimer(10'000 + kPatience, &*run_).shards, ElementsAre(ShardId{0}));
}

TEST_F(PullWatchTest, TheLongestWaitBeyondThePatienceIsSaid) {
  watch_.OnAsked(0, ShardId{0});
  watch_.OnAsked(50, ShardId{1});
  EXPECT_FALSE(watch_.Longest(kPatience - 1, *run_).has_value());
  const Nanos now = 3 * kPatience;
  watch_.OnTimer(now, &*run_);
  ASSERT_TRUE(watch_.Longest(now, *run_).has_value());
  EXPECT_EQ(watch_.Longest(now, *run_)->shard, ShardId{0});
  EXPECT_EQ(watch_.Longest(now, *run_)->for_ns, now);
  EXPECT_EQ(watch_.Longest(now, *run_)->asked, 1u);
  run_->Answer(ShardId{0});
  EXPECT_EQ(watch_.Longest(now, *run_)->shard, ShardId{1});
  EXPECT_EQ(watch_.Longest(now, *run_)->for_ns, now - 50);
  run_->Answer(ShardId{1});
  EXPECT_FALSE(watch_.Longest(now, *run_).has_value());
}

TEST_F(PullWatchTest, AnAnswerIsSurplusAsOftenAsTheRunBeforeHasRepeatedItsPull) {
  watch_.OnAsked(0, ShardId{0});
  watch_.OnAsked(0, ShardId{1});
  run_->Answer(ShardId{1});
  for (const Nanos now : {kPatience, 3 * kPatience}) watch_.OnTimer(now, &*run_);
  watch_.OnRunEnded(0);
  Begin(BuildExchange(options_->Inputs(), {0, 1}));
  EXPECT_FALSE(IsSurplus(0, 1)) << "of another clock";
  EXPECT_FALSE(IsSurplus(1, 0)) << "it was not repeated";
  EXPECT_TRUE(IsSurplus(0, 0));
  EXPECT_TRUE(IsSurplus(0, 0));
  EXPECT_FALSE(IsSurplus(0, 0)) << "it was repeated twice";
}

TEST_F(PullWatchTest, OnlyAnExchangeHasSurplusAnswers) {
  watch_.OnAsked(0, ShardId{0});
  watch_.OnTimer(kPatience, &*run_);
  watch_.OnRunEnded(0);
  Begin(BuildInitialPull(options_->Inputs()));
  EXPECT_FALSE(IsSurplus(0, 0));
}

}  // namespace
}  // namespace soapstone::worker
