#include "worker/engine.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "worker/hand_played_engine.h"

namespace soapstone::worker {
namespace {

class EngineTest : public HandPlayedEngine {};

TEST_F(EngineTest, NothingIsComputedBeforeAllShardsHaveAnswered) {
  Start("ssp:s=1", 1, 5);
  EXPECT_EQ(Sent(MessageType::kPull), 2u);
  Reply(0, 0, 0);
  EXPECT_TRUE(commands_.empty());
  Reply(1, 0, 0);
  EXPECT_FALSE(commands_.empty());
}

// What has not come after the patience is asked for again, of the shard that owes it alone, and is
// said in the worker's progress; who is asked sends what it would have sent.
TEST_F(EngineTest, ValuesThatDoNotComeAreAskedForAgain) {
  now_ = kSecond;
  Start("ssp:s=1", 1, 5);
  ASSERT_EQ(out_.timers.size(), 1u);
  EXPECT_EQ(out_.timers[0].id, Engine::kWatch);
  EXPECT_EQ(out_.timers[0].at, 6 * kSecond);
  Reply(1, 0, 0);
  const Message asked = out_.messages[out_.messages.size() - 2];
  out_ = {};
  now_ = 6 * kSecond - 1;
  EXPECT_FALSE(engine_->ProgressAt(now_).waiting.has_value());
  for (uint32_t times = 1; times <= 3; ++times) {
    now_ = (1 + 5 * ((1 << times) - 1)) * kSecond;
    engine_->OnTimer(now_ - 1, {&out_, &commands_});
    ASSERT_EQ(out_.messages.size(), times - 1);
    engine_->OnTimer(now_, {&out_, &commands_});
    ASSERT_EQ(out_.messages.size(), times);
    EXPECT_EQ(out_.messages.back(), asked);
    EXPECT_EQ(out_.messages.back().to, Address::Of(ShardId{0}));
    EXPECT_EQ(out_.timers.back().at, now_ + (5 << times) * kSecond);
    EXPECT_EQ(engine_->ProgressAt(now_).waiting,
              (wire::Waiting{Address::Of(ShardId{0}), 0, now_ - kSecond, times}));
  }
  EXPECT_EQ(wire::ToString(*engine_->ProgressAt(now_).waiting),
            "35.0 s for shard-0: values of clock 0, asked for again 3 times");
  EXPECT_TRUE(engine_->waits());
  Reply(0, 0, 0);
  EXPECT_FALSE(engine_->waits());
  EXPECT_FALSE(engine_->ProgressAt(now_).waiting.has_value());
  const size_t commands = commands_.size();
  Reply(0, 0, 0);  // to one that asked again: not taken twice
  EXPECT_EQ(commands_.size(), commands);
  EXPECT_FALSE(engine_->failure().has_value());
}

// The timer is set once, not at each pull; at its time it is moved to when the youngest pull is
// due.
TEST_F(EngineTest, TheWatchIsOneTimer) {
  Start("ssp:s=1", 1, 5);
  for (Clock clock = 0; clock < 3; ++clock) {
    now_ = clock * kSecond;
    Reply(0, clock, clock);
    Reply(1, clock, clock);
    RunDevice();
  }
  ASSERT_EQ(out_.timers.size(), 1u);
  const size_t pulls = Sent(MessageType::kPull);
  now_ = 5 * kSecond;
  engine_->OnTimer(now_, {&out_, &commands_});  // the last pull left at 2 s
  EXPECT_EQ(Sent(MessageType::kPull), pulls);
  ASSERT_EQ(out_.timers.size(), 2u);
  EXPECT_EQ(out_.timers[1].at, 7 * kSecond);
}

// A shard that answers with other rows, or none, must not get as far as the device.
TEST_F(EngineTest, RowsMustBeThoseAskedFor) {
  const uint64_t key = 7;
  const Buffer keys = Buffer::CopyOf(&key, sizeof(key));
  for (const size_t bytes : {size_t{0}, size_t{4}, size_t{8}, size_t{12}}) {
    layout_ = std::make_shared<const wire::Layout>(
        *wire::Layout::Build({}, {.shard_count = 1, .tables = {{.name = "t", .dim = 2}}}));
    ops_ = {{}};
    commands_.clear();
    Start("async", 1, 3);
    ASSERT_EQ(commands_.size(), 1u);
    EXPECT_TRUE(std::holds_alternative<FindKeys>(commands_[0].what));
    engine_->OnDevice(now_, {.run = commands_[0].run, .frames = {keys}}, {&out_, &commands_});
    EXPECT_EQ(out_.messages.back().payload.size(), 1u);
    Message reply;
    reply.type = MessageType::kPullReply;
    reply.body = wire::PullReply{};
    reply.clock = 0;
    reply.from = Address::Of(ShardId{0});
    const std::vector<float> row(3, 1.0f);
    if (bytes > 0) reply.payload = {Buffer::CopyOf(row.data(), bytes)};
    Deliver(reply);
    EXPECT_EQ(engine_->failure().has_value(), bytes != 8) << bytes;
  }
}

TEST_F(EngineTest, StepPushesThenClocksThenPullsTheNext) {
  Start("ssp:s=1", 1, 5);
  Reply(0, 0, 0);
  Reply(1, 0, 0);
  out_.messages.clear();
  RunDevice();
  EXPECT_EQ(engine_->clock(), 1);
  std::vector<MessageType> to_shard_0;
  for (const Message& message : out_.messages) {
    if (message.to == Address::Of(ShardId{0})) to_shard_0.push_back(message.type);
  }
  EXPECT_EQ(to_shard_0, (std::vector<MessageType>{MessageType::kPush, MessageType::kClock,
                                                  MessageType::kPull}));
}

TEST_F(EngineTest, AWaitIsSplitByWhatTheLastReplySays) {
  Start("ssp:s=1", 1, 5);
  now_ = 40;
  Reply(0, 0, 0, /*parked_ns=*/35, /*queued_ns=*/5);
  now_ = 100;
  Reply(1, 0, 0, /*parked_ns=*/70, /*queued_ns=*/10);
  EXPECT_EQ(engine_->progress().blocked_ns, 100);
  EXPECT_EQ(engine_->progress().parked_ns, 70);
  EXPECT_EQ(engine_->progress().queued_ns, 10);
}

TEST_F(EngineTest, PullsSentInTurnAddUpToTheWait) {
  Start("value", 1, 5);
  now_ = 40;
  Reply(0, 0, 0, /*parked_ns=*/20, /*queued_ns=*/5);
  now_ = 100;
  Reply(1, 0, 0, /*parked_ns=*/30, /*queued_ns=*/10);
  EXPECT_EQ(engine_->progress().blocked_ns, 100);
  EXPECT_EQ(engine_->progress().parked_ns, 50);
  EXPECT_EQ(engine_->progress().queued_ns, 15);
}

TEST_F(EngineTest, NoMoreIsCountedThanWasWaited) {
  Start("ssp:s=1", 1, 5);
  now_ = 10;
  Reply(0, 0, 0);
  Reply(1, 0, 0, /*parked_ns=*/8, /*queued_ns=*/7);
  EXPECT_EQ(engine_->progress().parked_ns, 8);
  EXPECT_EQ(engine_->progress().queued_ns, 2);
}

TEST_F(EngineTest, DuplicateReplyIsNotTakenForAnotherShards) {
  Start("ssp:s=1", 1, 5);
  Reply(0, 0, 0);
  Reply(0, 0, 0);
  EXPECT_TRUE(commands_.empty());
}

TEST_F(EngineTest, ReplyOfAnotherClockIsIgnored) {
  Start("ssp:s=1", 1, 5);
  Reply(0, 1, 0);
  Reply(1, 1, 0);
  EXPECT_TRUE(commands_.empty());
}

TEST_F(EngineTest, ReadLagsAreCounted) {
  Start("ssp:s=3", 1, 5);
  Reply(0, 0, 0);
  Reply(1, 0, 0);
  RunDevice();
  Reply(0, 1, 0);
  Reply(1, 1, 1);
  EXPECT_EQ(engine_->progress().read_lags, (std::vector<uint64_t>{3, 1}));
}

TEST_F(EngineTest, LastClockIsReportedAsDone) {
  Start("async", 1, 1);
  Reply(0, 0, 0);
  Reply(1, 0, 0);
  RunDevice();
  EXPECT_TRUE(engine_->done());
  EXPECT_EQ(Sent(MessageType::kDone), 1u);
}

TEST_F(EngineTest, LeavesOfALostWorkerAreRecomputedInTheStepInHand) {
  Start("bsp", 2, 5);
  Reply(0, 0, 0);
  Reply(1, 0, 0);
  RunDevice();  // step 0 is pushed; now waiting for version 1
  out_.messages.clear();
  roster_.workers.pop_back();
  SendRoster(2);
  RunDevice();
  ASSERT_EQ(Sent(MessageType::kPush), 2u);
  EXPECT_EQ(out_.messages[0].clock, 0);
  EXPECT_EQ(wire::As<wire::Push>(out_.messages[0]).micro_batches, (MicroBatchRange{1, 2}));
}

TEST_F(EngineTest, SspDoesNotGoBackForALostWorker) {
  Start("ssp:s=1", 2, 5);
  Reply(0, 0, 0);
  Reply(1, 0, 0);
  RunDevice();
  out_.messages.clear();
  roster_.workers.pop_back();
  SendRoster(2);
  EXPECT_EQ(Sent(MessageType::kPush), 0u);
}

TEST_F(EngineTest, LeaveWaitsUntilItsUpdatesAreTaken) {
  Start("ssp:s=1", 1, 5);
  Reply(0, 0, 0);
  Reply(1, 0, 0);
  engine_->RequestLeave();
  RunDevice();
  EXPECT_EQ(Sent(MessageType::kLeave), 0u);
  Reply(0, 1, 0);
  Reply(1, 1, 0);
  EXPECT_EQ(Sent(MessageType::kLeave), 1u);
  EXPECT_TRUE(engine_->left());
}

TEST_F(EngineTest, ElasticAveragingExchangesEveryTauSteps) {
  Start("easgd:tau=2,mode=async", 1, 5);
  Reply(0, 0, 0);  // the initial pull
  Reply(1, 0, 0);
  RunDevice();
  EXPECT_EQ(std::count(seen_.begin(), seen_.end(), "update"), 2);
  EXPECT_EQ(engine_->clock(), 2);
  Reply(0, 0, 0);  // the exchange of round 0
  Reply(1, 0, 0);
  RunDevice();
  EXPECT_EQ(std::count(seen_.begin(), seen_.end(), "elastic"), 1);
  EXPECT_EQ(Sent(MessageType::kPush), 2u);
  EXPECT_EQ(engine_->clock(), 4);
}

TEST_F(EngineTest, RefusalByAShardIsAFailure) {
  Start("ssp:s=1", 1, 5);
  Message reject;
  reject.type = MessageType::kReject;
  reject.from = Address::Of(ShardId{1});
  reject.epoch = 1;
  reject.body = wire::Notice{0, "stale epoch 1"};
  Deliver(reject);
  EXPECT_EQ(engine_->failure(), "shard-1 refused a message: stale epoch 1");
}

TEST_F(EngineTest, RefusalOfAFormerHoldersMessageIsNotOurs) {
  roster_.workers.push_back({.worker = WorkerId{0}, .admitted = 3, .original = false});
  roster_.worker_count = 1;
  layout_ = std::make_shared<const wire::Layout>(
      *wire::Layout::Build({{.name = "w", .shape = {64}}}, {.shard_count = 2}));
  engine_.emplace(EngineOptions{.layout = layout_, .policy = *consistency::ParsePolicy("async")});
  SendRoster(3);
  Message reject;
  reject.type = MessageType::kReject;
  reject.from = Address::Of(ShardId{1});
  reject.epoch = 1;
  reject.body = wire::Notice{0, "stale epoch 1"};
  Deliver(reject);
  EXPECT_FALSE(engine_->failure().has_value());
}

// A gradient that is not finite, found with the first bucket of the step.
TEST_F(EngineTest, ADivergenceIsToldAndNothingMoreLeaves) {
  Start("ssp:s=1", 1, 5);
  Reply(0, 0, 0);
  Reply(1, 0, 0);
  out_.messages.clear();
  not_finite_ = {.updates = 1, .tensor = 0};
  RunDevice();
  ASSERT_EQ(out_.messages.size(), 1u);
  const Message& told = out_.messages[0];
  EXPECT_EQ(told.type, MessageType::kNotFinite);
  EXPECT_EQ(told.to, Address::Scheduler());
  EXPECT_EQ(told.clock, 0);
  EXPECT_EQ(std::get<wire::NotFinite>(told.body),
            (wire::NotFinite{.worker = 0, .parameters = false, .tensor = "w"}));
  EXPECT_EQ(engine_->clock(), 0);
}

TEST_F(EngineTest, WhatTheDeviceLeftOutIsCountedAndTheStepGoesOn) {
  skip_ = true;
  Start("ssp:s=1", 1, 5);
  Reply(0, 0, 0);
  Reply(1, 0, 0);
  not_finite_ = {.updates = 2, .tensor = 0};
  RunDevice();
  EXPECT_EQ(engine_->clock(), 1);
  EXPECT_EQ(Sent(MessageType::kNotFinite), 0u);
  EXPECT_EQ(Sent(MessageType::kPush), 2u);
  EXPECT_EQ(engine_->progress().left_out, (std::vector<wire::LeftOut>{{"w", 2, 0}}));
}

// Parameters that are not finite are not mended by leaving out what comes of them.
TEST_F(EngineTest, ParametersThatAreNotFiniteEndTheJobEvenSo) {
  skip_ = true;
  Start("ssp:s=1", 1, 5);
  Reply(0, 0, 0);
  Reply(1, 0, 0);
  not_finite_ = {.updates = 1, .tensor = 0, .parameters = true};
  RunDevice();
  EXPECT_EQ(Sent(MessageType::kNotFinite), 1u);
  EXPECT_EQ(engine_->clock(), 0);
}

}  // namespace
}  // namespace soapstone::worker
