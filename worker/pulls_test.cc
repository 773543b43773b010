#include "worker/pulls.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/hand_played_engine.h"

namespace soapstone::worker {
namespace {

// The pulls of a step of a small job. Its program loads all shards at once, or, by transfer stages,
// one after another.
class PullsTest : public ::testing::Test {
 protected:
  void Make(const std::string& policy, bool by_transfer_stages = false) {
    EngineOptions options = SmallJob(policy, 1, 5);
    if (by_transfer_stages) {
      options.layout = std::make_shared<const wire::Layout>(*wire::Layout::Build(
          {{.name = "first", .shape = {32, 1}}, {.name = "last", .shape = {32, 1}}},
          {.shard_count = 2, .transfer_stages = 2}));
      options.ops = std::make_shared<const std::vector<OpOutline>>(
          std::vector<OpOutline>{{{ParamId{0}}}, {{ParamId{1}}}});
    }
    options_ = Shared(std::move(options));
    pulls_.emplace(options_);
    run_.emplace(
        std::make_shared<const Program>(BuildStep(options_->Inputs(), PlanSingleNode({0, 1}, {}))),
        1, ProgramRun::Clocks{.step = 1, .shard = 1}, 2);
    progress_ = {};
  }
  void Begin(Nanos now = 0, bool unasked = false) { pulls_->Begin(now, unasked); }
  void Take(uint32_t shard, const std::string& bytes, Clock oldest = 1) {
    pulls_->Take(ShardId{shard}, AnswerOf(shard, 1, oldest, bytes), &progress_);
  }
  bool Load(Nanos now = 0) { return pulls_->OnLoad(now, *run_, &progress_); }
  // Of the shards' values, as text; "-": none.
  static std::string Text(const std::vector<Buffers>& values) {
    std::string text;
    for (const Buffers& of_shard : values) {
      if (of_shard.empty()) text += "-";
      for (const Buffer& frame : of_shard) {
        text.append(reinterpret_cast<const char*>(frame.data()), frame.size());
      }
    }
    return text;
  }

  std::shared_ptr<const EngineOptions> options_;
  std::optional<Pulls> pulls_;
  std::optional<ProgramRun> run_;
  wire::Progress progress_;
};

TEST_F(PullsTest, ValuesAreKeptUntilTheLastLoadIsIssued) {
  Make("bsp", /*by_transfer_stages=*/true);
  Begin();
  Take(0, "a");
  Take(1, "b");
  EXPECT_EQ(Text(pulls_->ValuesOf(ShardId{1})), "-b");
  EXPECT_FALSE(pulls_->mixed());
  EXPECT_FALSE(Load());
  EXPECT_TRUE(pulls_->mixed());
  EXPECT_EQ(Text(pulls_->values()), "ab");
  pulls_->Rewind();
  EXPECT_FALSE(pulls_->mixed());
  EXPECT_FALSE(Load());  // both are loaded once more
  EXPECT_TRUE(Load());
  EXPECT_TRUE(pulls_->loaded());
  EXPECT_FALSE(pulls_->mixed());
  EXPECT_EQ(Text(pulls_->TakeValues()), "ab");
  EXPECT_EQ(Text(pulls_->values()), "--");
}

TEST_F(PullsTest, EarlyValuesAreKeptForTheClockToComeWhereNobodyNeedAsk) {
  Make("bsp", /*by_transfer_stages=*/true);
  const auto keep = [&](Clock clock) {
    return pulls_->KeepEarly(ShardId{0}, 1, AnswerOf(0, clock, clock, "a"));
  };
  EXPECT_FALSE(keep(1)) << "it was not asked ahead";
  pulls_->OnAskedAhead(ShardId{0}, 1);
  EXPECT_FALSE(keep(0));
  EXPECT_FALSE(keep(2));
  Message final = AnswerOf(0, 1, 1, "a");
  wire::As<wire::PullReply>(&final).final = true;
  EXPECT_FALSE(pulls_->KeepEarly(ShardId{0}, 1, final));
  EXPECT_TRUE(keep(1));
  EXPECT_FALSE(pulls_->KeepEarly(ShardId{1}, 1, AnswerOf(1, 1, 1, "b")));
  Begin();
  EXPECT_TRUE(pulls_->IsComing(*run_, ShardId{0}));
  EXPECT_FALSE(pulls_->IsComing(*run_, ShardId{1}));
}

TEST_F(PullsTest, EarlyValuesAreTakenOnce) {
  Make("bsp", /*by_transfer_stages=*/true);
  pulls_->OnAskedAhead(ShardId{1}, 1);
  ASSERT_TRUE(pulls_->KeepEarly(ShardId{1}, 1, AnswerOf(1, 1, 1, "early")));
  Begin();
  EXPECT_FALSE(pulls_->TakeEarly(ShardId{0}, 1, &progress_));
  EXPECT_FALSE(pulls_->TakeEarly(ShardId{1}, 2, &progress_));
  EXPECT_TRUE(pulls_->TakeEarly(ShardId{1}, 1, &progress_));
  EXPECT_EQ(Text(pulls_->values()), "-early");
  EXPECT_EQ(progress_.pulled_bytes, 5u);
  EXPECT_FALSE(pulls_->TakeEarly(ShardId{1}, 1, &progress_));
}

TEST_F(PullsTest, OnlyFresherValuesTakeThePlaceOfOthersAndOnlyUntilTheyAreLoaded) {
  Make("essp:s=1");
  Begin(0, /*unasked=*/true);
  EXPECT_TRUE(pulls_->IsComing(*run_, ShardId{0}));
  Take(0, "old", 3);
  EXPECT_FALSE(pulls_->IsFresher(ShardId{0}, AnswerOf(0, 1, 2)));
  EXPECT_FALSE(pulls_->IsFresher(ShardId{0}, AnswerOf(0, 1, 3)));
  EXPECT_TRUE(pulls_->IsFresher(ShardId{0}, AnswerOf(0, 1, 4)));
  EXPECT_TRUE(Load());
  EXPECT_FALSE(pulls_->IsFresher(ShardId{0}, AnswerOf(0, 1, 4)));
  pulls_->End();
  Begin(0, /*unasked=*/false);
  EXPECT_FALSE(pulls_->IsFresher(ShardId{0}, AnswerOf(0, 1, 4)));
}

TEST_F(PullsTest, OfAWaitNoMoreIsParkedAndQueuedThanWasWaited) {
  for (const Nanos parked : {0, 6, 30}) {
    for (const Nanos queued : {0, 5, 30}) {
      Make("ssp:s=1");
      Begin(100);
      pulls_->OnDue(103);
      Message reply = AnswerOf(0, 1, 1);
      wire::As<wire::PullReply>(&reply).parked_ns = parked;
      wire::As<wire::PullReply>(&reply).queued_ns = queued;
      pulls_->Take(ShardId{0}, reply, &progress_);
      Load(113);
      EXPECT_EQ(progress_.blocked_ns, 10);
      EXPECT_EQ(progress_.parked_ns, std::min<Nanos>(parked, 10));
      EXPECT_EQ(progress_.queued_ns, std::min<Nanos>(queued, 10 - progress_.parked_ns));
    }
  }
}

TEST_F(PullsTest, PullsInTurnAreWaitedForSinceTheRunBegan) {
  Make("value");
  Begin(100);
  pulls_->OnDue(103);
  for (const uint32_t shard : {0u, 1u}) {
    Message reply = AnswerOf(shard, 1, 1);
    wire::As<wire::PullReply>(&reply).parked_ns = 4;
    pulls_->Take(ShardId{shard}, reply, &progress_);
  }
  Load(113);
  EXPECT_EQ(progress_.blocked_ns, 13);
  EXPECT_EQ(progress_.parked_ns, 8);
}

TEST_F(PullsTest, NothingIsWaitedForWhileTheDeviceIsBusy) {
  Make("bsp", /*by_transfer_stages=*/true);
  Begin(0);
  Load(10);
  Load(50);
  EXPECT_EQ(progress_.blocked_ns, 10);
}

TEST_F(PullsTest, AFinalReadHasNoLag) {
  Make("ssp:s=3");
  Begin();
  Take(0, "a", 0);
  Take(1, "b", 1);
  Load();
  EXPECT_EQ(progress_.read_lags, (std::vector<uint64_t>{1, 1}));
  pulls_->End();
  run_.emplace(std::make_shared<const Program>(BuildFinalEvaluate(options_->Inputs())), 2,
               ProgramRun::Clocks{.step = 5, .shard = 5, .final = true}, 2);
  Begin();
  Load();
  EXPECT_EQ(progress_.read_lags, (std::vector<uint64_t>{1, 1}));
}

TEST_F(PullsTest, OfARunNothingIsLeftBehind) {
  Make("essp:s=1");
  const auto before = FingerprintOf(*pulls_);
  Begin(7, /*unasked=*/true);
  Take(0, "a", 3);
  EXPECT_NE(FingerprintOf(*pulls_), before);
  Load();
  pulls_->End();
  EXPECT_EQ(FingerprintOf(*pulls_), before);
  EXPECT_EQ(Text(pulls_->values()), "--");
  EXPECT_FALSE(pulls_->loaded());
  EXPECT_FALSE(pulls_->IsComing(*run_, ShardId{0}));
}

}  // namespace
}  // namespace soapstone::worker
