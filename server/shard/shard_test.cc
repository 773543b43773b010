#include "server/shard/shard.h"

#include <cmath>

#include "gmock/gmock.h"
#include "server/shard/hand_fed_shard.h"

namespace soapstone::server {
namespace {

using ::testing::HasSubstr;

TEST_F(ShardTest, PushIsAppliedOnceHoweverOftenItArrives) {
  Start("async", 1, 1);
  Send(Push(0, 0, {0, 1}, 1.0f));
  Send(Push(0, 0, {0, 1}, 1.0f));
  EXPECT_EQ(Value(), -1.0f);
  EXPECT_EQ(shard_->stats().duplicates, 1u);
}

// More than any number of 16 bits, and one by one: none is taken for one before it.
TEST_F(ShardTest, AMillionPushesOfAClockAreToldApart) {
  constexpr uint32_t kPushes = 1'000'000;
  Start("ssp:s=1", 1, kPushes);
  for (uint32_t micro_batch = 0; micro_batch < kPushes; ++micro_batch)
    Send(Push(0, 0, {micro_batch, micro_batch + 1}, 0.0f));
  EXPECT_EQ(shard_->stats().duplicates, 0u);
  EXPECT_EQ(shard_->stats().pushes_applied, kPushes);
  for (uint32_t micro_batch = 0; micro_batch < kPushes; micro_batch += 1000)
    Send(Push(0, 0, {micro_batch, micro_batch + 1}, 0.0f));
  EXPECT_EQ(shard_->stats().duplicates, kPushes / 1000);
  // The clock that says how many there are counts, so nobody waits.
  Send(Clocked(0, 1, kPushes));
  EXPECT_EQ(Send(Data(MessageType::kPull, 0, 1)).messages.size(), 1u);
}

// A bound that is hit is said to who hit it: a push taken for a duplicate would be waited for.
TEST_F(ShardTest, MorePushesThanCanBeRememberedAreRefused) {
  seen_pushes_max_ = 3;
  Start("ssp:s=1", 1, 8);
  for (uint32_t micro_batch = 0; micro_batch < 3; ++micro_batch) {
    EXPECT_TRUE(Send(Push(0, 0, {micro_batch, micro_batch + 1}, 1.0f)).messages.empty());
  }
  const wire::Outbox out = Send(Push(0, 0, {3, 4}, 1.0f));
  ASSERT_EQ(out.messages.size(), 1u);
  EXPECT_EQ(out.messages[0].type, MessageType::kReject);
  EXPECT_EQ(out.messages[0].to, Address::Of(WorkerId{0}));
  EXPECT_THAT(std::get<wire::Notice>(out.messages[0].body).text,
              HasSubstr("more than 3 pushes of clock 0"));
  EXPECT_EQ(shard_->stats().duplicates, 0u);
  EXPECT_EQ(Value(), -3.0f);
  // One that was seen is no new one.
  EXPECT_TRUE(Send(Push(0, 0, {1, 2}, 1.0f)).messages.empty());
  EXPECT_EQ(shard_->stats().duplicates, 1u);
  // And the next clock begins anew.
  Send(Clocked(0, 1, 3));
  EXPECT_TRUE(Send(Push(0, 1, {3, 4}, 1.0f)).messages.empty());
}

// What is remembered is a set: worlds that differ in the order of arrival alone are one state.
TEST_F(ShardTest, TheFingerprintHoldsWhatWasSeenInWhateverOrder) {
  const auto after = [&](const std::vector<MicroBatchRange>& micro_batches) {
    shard_.reset();
    roster_ = {};
    Start("bsp", 2, 8);
    for (const MicroBatchRange range : micro_batches) Send(Push(0, 0, range, 1.0f));
    Fingerprint f;
    shard_->AddTo(&f);
    return f.value();
  };
  EXPECT_EQ(after({{0, 1}, {1, 2}}), after({{1, 2}, {0, 1}}));
  EXPECT_NE(after({{0, 1}, {1, 2}}), after({{0, 1}, {2, 3}}));
  EXPECT_NE(after({{0, 2}}), after({{0, 1}}));
}

TEST_F(ShardTest, DuplicateAfterTheClockIsDropped) {
  Start("ssp:s=1", 1, 1);
  Send(Push(0, 0, {0, 1}, 1.0f));
  Send(Clocked(0, 1, 1));
  Send(Push(0, 0, {0, 1}, 1.0f));
  EXPECT_EQ(Value(), -1.0f);
}

TEST_F(ShardTest, ClockThatOvertakesItsPushesWaitsForThem) {
  Start("ssp:s=0", 2, 2);
  Send(Clocked(1, 1, 1));  // its push is still on the way
  Send(Push(0, 0, {0, 1}, 1.0f));
  Send(Clocked(0, 1, 1));
  EXPECT_TRUE(Send(Data(MessageType::kPull, 0, 1)).messages.empty());
  const wire::Outbox out = Send(Push(1, 0, {1, 2}, 1.0f));
  ASSERT_EQ(out.messages.size(), 1u);
  EXPECT_EQ(out.messages[0].type, MessageType::kPullReply);
}

TEST_F(ShardTest, WrongPayloadSizeIsRejected) {
  Start("async", 1, 1);
  Message push = Push(0, 0, {0, 1}, 1.0f);
  push.payload[0] = push.payload[0].Slice(0, 28);
  EXPECT_EQ(Send(push).messages.at(0).type, MessageType::kReject);
  push.payload.clear();
  EXPECT_EQ(Send(push).messages.at(0).type, MessageType::kReject);
  EXPECT_EQ(Value(), 0.0f);
}

TEST_F(ShardTest, MicroBatchesMustBeANodeOfTheTree) {
  Start("bsp", 1, 4);
  EXPECT_EQ(Send(Push(0, 0, {1, 3}, 1.0f)).messages.at(0).type, MessageType::kReject);
  EXPECT_TRUE(Send(Push(0, 0, {0, 2}, 1.0f)).messages.empty());
}

TEST_F(ShardTest, ReplyCarriesTheOldestAppliedClock) {
  Start("ssp:s=2", 2, 2);
  Send(Push(0, 0, {0, 1}, 1.0f));
  Send(Clocked(0, 1, 1));
  const wire::Outbox out = Send(Data(MessageType::kPull, 0, 1));
  ASSERT_EQ(out.messages.size(), 1u);
  EXPECT_EQ(wire::As<wire::PullReply>(out.messages[0]).oldest, 0);
  EXPECT_EQ(shard_->ledger().rows().at(0).read_lags.CountIn(1), 1u);
}

TEST_F(ShardTest, ReplySaysHowLongItsPullWaited) {
  Start("ssp:s=0", 2, 2);
  Send(Push(0, 0, {0, 1}, 1.0f));
  Send(Clocked(0, 1, 1));
  Message pull = Data(MessageType::kPull, 0, 1);
  pull.queued_ns = 7;
  now_ = 100;
  EXPECT_TRUE(Send(pull).messages.empty());
  Send(Push(1, 0, {1, 2}, 1.0f));
  now_ = 130;
  const wire::Outbox out = Send(Clocked(1, 1, 1));
  ASSERT_EQ(out.messages.size(), 1u);
  EXPECT_EQ(wire::As<wire::PullReply>(out.messages[0]).parked_ns, 30);
  EXPECT_EQ(wire::As<wire::PullReply>(out.messages[0]).queued_ns, 7);
}

// Of three workers one is two clocks ahead and waits, one has read, and one has not.
TEST_F(ShardTest, ItSaysHowItsReadsStand) {
  Start("ssp:s=1", 3, 3);
  EXPECT_EQ(shard_->Reads(0).reader_count, 3u);
  const auto pull = [&](uint32_t worker, Clock clock) {
    Send(Data(MessageType::kPull, worker, clock));
  };
  for (Clock clock = 0; clock < 2; ++clock) {
    pull(0, clock);
    Send(Push(0, clock, {0, 1}, 1));
    Send(Clocked(0, clock + 1, 1));
  }
  pull(1, 0);
  now_ = 5 * kSecond;
  pull(0, 2);  // the others are at 0: it waits
  const wire::ShardReads reads = shard_->Reads(now_ + 1500 * kMillisecond);
  EXPECT_EQ(reads.frontier, 0);
  EXPECT_EQ(reads.parked_count, 1u);
  std::vector<wire::ReaderState> expected = {
      {WorkerId{0}, /*clock=*/2, /*reads=*/2, /*lag_sum=*/1, /*lag_max=*/1, /*parked_ms=*/1500},
      {WorkerId{1}, /*clock=*/0, /*reads=*/1},
      {WorkerId{2}, /*clock=*/0}};
  EXPECT_EQ(reads.readers, expected);
  EXPECT_EQ(reads.reader_count, 3u);
  EXPECT_EQ(shard_->Reads(now_).readers[0].parked_ms, 1u);  // it waits, if not for long
  roster_.workers = {{.worker = WorkerId{1}, .admitted = 1}};
  SendRoster(2);
  expected = {{WorkerId{0}, kNoClock, 2, 1, 1}, {WorkerId{1}, 0, 1}};
  EXPECT_EQ(shard_->Reads(now_).readers, expected);  // who has read stays, and waits no more
}

TEST_F(ShardTest, ASubscriberWaitsFromItsClockOn) {
  Start("essp:s=0", 2, 2);
  Send(Data(MessageType::kPull, 0, 0));
  Send(Push(0, 0, {0, 1}, 1.0f));
  now_ = 100;
  EXPECT_TRUE(Send(Clocked(0, 1, 1)).messages.empty());
  Send(Push(1, 0, {1, 2}, 1.0f));
  now_ = 130;
  const wire::Outbox out = Send(Clocked(1, 1, 1));
  ASSERT_EQ(out.messages.size(), 1u);
  EXPECT_EQ(wire::As<wire::PullReply>(out.messages[0]).parked_ns, 30);
}

TEST_F(ShardTest, FinalPullWaitsForEveryMembersLastClock) {
  Start("async", 2, 2);
  Message pull = Data(MessageType::kPull, 0, 10);
  pull.body = wire::Pull{.final = true};
  Send(Clocked(0, 10, 0));
  EXPECT_TRUE(Send(pull).messages.empty());
  EXPECT_TRUE(wire::As<wire::PullReply>(Send(Clocked(1, 10, 0)).messages.at(0)).final);
}

TEST_F(ShardTest, ElasticDifferencesAreAddedToTheCentre) {
  Start("easgd:tau=2,mode=async", 2, 2);
  Send(Push(0, 0, {0, 1}, 0.25f));
  EXPECT_EQ(Value(), 0.25f);
}

TEST_F(ShardTest, BspAppliesTheMeanOverTheGlobalBatch) {
  Start("bsp", 2, 2);
  for (uint32_t w = 0; w < 2; ++w) {
    Message push = Push(w, 0, {w, w + 1}, 4.0f);
    wire::As<wire::Push>(&push).batch_samples = 2;
    Send(push);
    Send(Clocked(w, 1, 1));
  }
  EXPECT_EQ(Value(), -4.0f);
}

TEST_F(ShardTest, OnlyServerZeroMayAskForTheModel) {
  Start("async", 1, 1);
  Message save = Data(MessageType::kSave, 0, 0);
  EXPECT_TRUE(Send(save).messages.empty());
  save.from = Address::Scheduler();
  EXPECT_TRUE(Send(save).messages.empty());
  save.from = Address::Of(ServerId{0});
  save.body = wire::Save{.bucket = BucketId{1000}};
  EXPECT_TRUE(Send(save).messages.empty());
  EXPECT_EQ(shard_->stats().rejects, 3u);
  save.body = wire::Save{.bucket = BucketId{0}};
  // Its worker has updates to send; a second question is the same one.
  EXPECT_TRUE(Send(save).messages.empty());
  EXPECT_TRUE(Send(save).messages.empty());
  wire::Outbox answer;
  for (Clock c = 0; c < 10; ++c) {
    EXPECT_TRUE(answer.messages.empty());
    Send(Push(0, c, {0, 1}, 1.0f));
    answer = Send(Clocked(0, c + 1, 1));
  }
  ASSERT_EQ(answer.messages.size(), 1u);
  EXPECT_EQ(answer.messages[0].type, MessageType::kSlices);
  EXPECT_EQ(wire::As<wire::Slices>(answer.messages[0]).bucket, BucketId{0});
  EXPECT_EQ(Send(save).messages.size(), 1u);
}

TEST_F(ShardTest, ADivergenceIsToldOnceWithWhoAndWhat) {
  Start("bsp", 2, 2);
  for (uint32_t w = 0; w < 2; ++w) {
    const wire::Outbox out = Send(Push(w, 0, {w, w + 1}, w == 1 ? NAN : 1.0f));
    EXPECT_TRUE(w > 0 || out.messages.empty());
  }
  const wire::Outbox first = Send(Clocked(0, 1, 1));
  const wire::Outbox second = Send(Clocked(1, 1, 1));
  std::vector<Message> told;
  for (const wire::Outbox* out : {&first, &second}) {
    for (const Message& message : out->messages) {
      if (message.type == MessageType::kNotFinite) told.push_back(message);
    }
  }
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].to, Address::Scheduler());
  EXPECT_EQ(told[0].clock, 0);
  EXPECT_EQ(std::get<wire::NotFinite>(told[0].body),
            (wire::NotFinite{.worker = 1, .parameters = true, .tensor = "w"}));
  for (uint32_t w = 0; w < 2; ++w) {
    for (const Message& message : Send(Push(w, 1, {w, w + 1}, NAN)).messages) {
      EXPECT_NE(message.type, MessageType::kNotFinite);
    }
  }
}

}  // namespace
}  // namespace soapstone::server
