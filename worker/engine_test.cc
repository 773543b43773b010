#include "worker/engine.h"

#include "gtest/gtest.h"

namespace soapstone::worker {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;

// One engine against hand-played shards and a device that answers when told to.
class EngineTest : public ::testing::Test {
 protected:
  void Start(const std::string& policy, uint32_t workers, Clock total_clocks) {
    engine_.emplace(EngineOptions{.id = WorkerId{0},
                                  .layout = layout_,
                                  .ops = std::make_shared<const std::vector<OpOutline>>(ops_),
                                  .policy = *consistency::ParsePolicy(policy),
                                  .leaf_count = workers,
                                  .total_clocks = total_clocks,
                                  .train_samples = 100,
                                  .batch = 10,
                                  .skip_not_finite = skip_});
    roster_ = {};
    for (uint32_t w = 0; w < workers; ++w) {
      roster_.workers.push_back({.worker = WorkerId{w}, .admitted = 1});
    }
    roster_.worker_count = workers;
    SendRoster(1);
    Message start;
    start.type = MessageType::kStart;
    start.clock = 0;
    Deliver(start);
  }

  void SendRoster(Epoch epoch) {
    Message message;
    message.type = MessageType::kRoster;
    message.epoch = epoch;
    message.body = roster_;
    Deliver(message);
  }

  void Deliver(const Message& message) { engine_->OnMessage(now_, message, {&out_, &commands_}); }

  void Reply(uint32_t shard, Clock clock, Clock oldest, Nanos parked_ns = 0, Nanos queued_ns = 0) {
    Message reply;
    reply.parked_ns = parked_ns;
    reply.queued_ns = queued_ns;
    reply.type = MessageType::kPullReply;
    reply.from = Address::Of(ShardId{shard});
    reply.clock = clock;
    reply.oldest = oldest;
    Deliver(reply);
  }

  // The device carries out everything it has been given.
  void RunDevice() {
    while (!commands_.empty()) {
      std::vector<DeviceCommand> commands = std::move(commands_);
      commands_.clear();
      for (const DeviceCommand& command : commands) {
        seen_.push_back(command.what.op);
        if (!command.wants_event) continue;
        engine_->OnDevice(now_,
                          {.run = command.run,
                           .instruction = command.instruction,
                           .samples = 1,
                           .not_finite = std::exchange(not_finite_, {})},
                          {&out_, &commands_});
      }
    }
  }

  size_t Sent(MessageType type) const {
    size_t count = 0;
    for (const Message& message : out_.messages) count += message.type == type ? 1 : 0;
    return count;
  }

  bool skip_ = false;
  DeviceEvent::NotFinite not_finite_;  // of the device's next event
  Nanos now_ = 0;
  std::shared_ptr<const wire::Layout> layout_ = std::make_shared<const wire::Layout>(
      *wire::Layout::Build({{.name = "w", .shape = {64}}}, {.shard_count = 2}));
  std::vector<OpOutline> ops_ = {{{ParamId{0}}}};
  wire::Roster roster_;
  std::optional<Engine> engine_;
  wire::Outbox out_;
  std::vector<DeviceCommand> commands_;
  std::vector<OpCode> seen_;
};

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
    EXPECT_EQ(commands_[0].what.op, OpCode::kKeys);
    engine_->OnDevice(now_, {.run = commands_[0].run, .frames = {keys}}, {&out_, &commands_});
    EXPECT_EQ(out_.messages.back().payload.size(), 1u);
    Message reply;
    reply.type = MessageType::kPullReply;
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
  EXPECT_EQ(out_.messages[0].leaves, (MicroBatchRange{1, 2}));
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
  EXPECT_EQ(std::count(seen_.begin(), seen_.end(), OpCode::kUpdate), 2);
  EXPECT_EQ(engine_->clock(), 2);
  Reply(0, 0, 0);  // the exchange of round 0
  Reply(1, 0, 0);
  RunDevice();
  EXPECT_EQ(std::count(seen_.begin(), seen_.end(), OpCode::kElastic), 1);
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

// Two layers in two stages, a shard each.
class StagedEngineTest : public EngineTest {
 protected:
  StagedEngineTest() {
    layout_ = std::make_shared<const wire::Layout>(*wire::Layout::Build(
        {{.name = "first", .shape = {32, 1}}, {.name = "last", .shape = {32, 1}}},
        {.shard_count = 2, .stages = 2}));
    ops_ = {{{ParamId{0}}}, {{ParamId{1}}}};
  }

  size_t Ordered(OpCode op) const {
    return static_cast<size_t>(
        std::count_if(commands_.begin(), commands_.end(),
                      [&](const DeviceCommand& command) { return command.what.op == op; }));
  }
  // Step 0, up to the moment at which its last message is sent.
  void MakeFirstStep(uint32_t workers) {
    Start("bsp", workers, 5);
    Reply(0, 0, 0);
    Reply(1, 0, 0);
    RunDevice();
    ASSERT_EQ(engine_->clock(), 1);
  }
  void LoseWorker1() {
    roster_.workers.pop_back();
    SendRoster(2);
  }
};

TEST_F(StagedEngineTest, TheFirstLayerRunsForwardOnTheFirstShardsReply) {
  Start("bsp", 1, 5);
  Reply(1, 0, 0);
  EXPECT_TRUE(commands_.empty());
  Reply(0, 0, 0);
  EXPECT_EQ(Ordered(OpCode::kForward), 2u);
  commands_.clear();
  Start("bsp", 1, 5);
  Reply(0, 0, 0);
  EXPECT_EQ(Ordered(OpCode::kLoad), 1u);
  EXPECT_EQ(Ordered(OpCode::kForward), 1u);
  EXPECT_EQ(Ordered(OpCode::kBackward), 0u);
}

TEST_F(StagedEngineTest, TheNextValuesAreAskedForWhileEarlierLayersRunBackward) {
  Start("bsp", 1, 5);
  out_.messages.clear();
  Reply(0, 0, 0);
  Reply(1, 0, 0);
  // The device hands over the last layer's gradient first.
  for (const DeviceCommand& command : commands_) {
    if (command.what.op != OpCode::kCollect || command.what.shard != ShardId{1}) continue;
    engine_->OnDevice(now_, {.run = command.run, .instruction = command.instruction, .samples = 1},
                      {&out_, &commands_});
    break;
  }
  ASSERT_EQ(out_.messages.size(), 3u);
  EXPECT_EQ(out_.messages[0].type, MessageType::kPush);
  EXPECT_EQ(out_.messages[1].type, MessageType::kClock);
  EXPECT_EQ(out_.messages[2].type, MessageType::kPull);
  EXPECT_EQ(out_.messages[2].clock, 1);
  EXPECT_EQ(engine_->clock(), 0);
}

TEST_F(StagedEngineTest, WhatWasAskedAheadIsNotAskedAgainAndMayComeEarly) {
  MakeFirstStep(1);
  EXPECT_EQ(Sent(MessageType::kPull), 4u);
  Reply(1, 1, 1);
  EXPECT_TRUE(commands_.empty());
  Reply(0, 1, 1);
  RunDevice();
  EXPECT_EQ(engine_->clock(), 2);
  EXPECT_EQ(Sent(MessageType::kPull), 6u);
}

TEST_F(StagedEngineTest, AReplyBeforeTheStepItIsForIsKept) {
  Start("bsp", 1, 5);
  Reply(0, 0, 0);
  Reply(1, 0, 0);
  const std::vector<DeviceCommand> commands = commands_;
  commands_.clear();
  for (const DeviceCommand& command : commands) {
    if (!command.wants_event) continue;
    engine_->OnDevice(now_, {.run = command.run, .instruction = command.instruction, .samples = 1},
                      {&out_, &commands_});
    if (command.what.op == OpCode::kCollect && command.what.shard == ShardId{1}) Reply(1, 1, 1);
  }
  EXPECT_EQ(engine_->clock(), 1);
  EXPECT_TRUE(commands_.empty());
  Reply(0, 1, 1);
  EXPECT_EQ(Ordered(OpCode::kLoad), 2u);
}

TEST_F(StagedEngineTest, NothingIsAskedForAfterTheLastClock) {
  Start("bsp", 1, 1);
  Reply(0, 0, 0);
  Reply(1, 0, 0);
  RunDevice();
  EXPECT_TRUE(engine_->done());
  EXPECT_EQ(Sent(MessageType::kPull), 2u);
}

TEST_F(StagedEngineTest, MessagesAreAsUrgentAsTheirShardsStage) {
  MakeFirstStep(1);
  for (const Message& message : out_.messages) {
    if (message.to.role != wire::Role::kShard) continue;
    EXPECT_EQ(message.priority, message.to.index) << wire::ToString(message);
  }
}

TEST_F(StagedEngineTest, PoliciesThatCannotPullAheadWaitForAllShards) {
  Start("essp:s=1", 1, 5);
  Reply(0, 0, 0);
  EXPECT_TRUE(commands_.empty());
}

TEST_F(StagedEngineTest, TheDeviceWaitsBetweenStages) {
  Start("bsp", 1, 5);
  now_ = 10;
  Reply(0, 0, 0);
  EXPECT_EQ(engine_->progress().blocked_ns, 10);
  now_ = 15;
  RunDevice();  // the first layer's forward pass ends
  now_ = 35;
  Reply(1, 0, 0);
  EXPECT_EQ(engine_->progress().blocked_ns, 30);
}

TEST_F(StagedEngineTest, NoWaitIsCountedWhileTheDeviceRuns) {
  Start("bsp", 1, 5);
  Reply(0, 0, 0);
  now_ = 35;
  Reply(1, 0, 0);
  RunDevice();
  EXPECT_EQ(engine_->progress().blocked_ns, 0);
}

TEST_F(StagedEngineTest, LeavesOfALostWorkerNeedTheFormerParametersAgain) {
  MakeFirstStep(2);
  Reply(0, 1, 1);
  RunDevice();  // the first layer of step 1 has run forward
  out_.messages.clear();
  seen_.clear();
  LoseWorker1();
  ASSERT_FALSE(commands_.empty());
  EXPECT_EQ(commands_.front().what.op, OpCode::kLoad);
  EXPECT_TRUE(commands_.front().what.all);
  EXPECT_EQ(commands_.front().clock, 0);
  // Step 1 begins anew behind them.
  EXPECT_EQ(commands_.back().what.op, OpCode::kForward);
  EXPECT_EQ(commands_.back().clock, 1);
  RunDevice();
  EXPECT_EQ(seen_, (std::vector<OpCode>{OpCode::kLoad, OpCode::kForward, OpCode::kForward,
                                        OpCode::kBackward, OpCode::kCollect, OpCode::kBackward,
                                        OpCode::kCollect, OpCode::kLoad, OpCode::kForward}));
  ASSERT_EQ(Sent(MessageType::kPush), 2u);
  EXPECT_EQ(out_.messages[0].clock, 0);
  EXPECT_EQ(out_.messages[0].leaves, (MicroBatchRange{1, 2}));
  Reply(1, 1, 1);
  RunDevice();
  EXPECT_EQ(engine_->clock(), 2);
}

TEST_F(StagedEngineTest, TheFormerParametersAreStillLoadedBeforeTheFirstReply) {
  MakeFirstStep(2);
  Reply(1, 1, 1);
  LoseWorker1();
  ASSERT_FALSE(commands_.empty());
  EXPECT_EQ(commands_.front().what.op, OpCode::kForward);
  EXPECT_EQ(commands_.front().clock, 0);
  EXPECT_EQ(Ordered(OpCode::kLoad), 0u);
}

TEST_F(StagedEngineTest, AnswersOfTheDeviceToTheStepBeforeItBeganAnewAreNobodys) {
  MakeFirstStep(2);
  Reply(0, 1, 1);
  const DeviceCommand forward = commands_.back();
  ASSERT_TRUE(forward.wants_event);
  LoseWorker1();
  now_ = 50;
  engine_->OnDevice(now_, {.run = forward.run, .instruction = forward.instruction},
                    {&out_, &commands_});
  RunDevice();
  Reply(1, 1, 1);
  RunDevice();
  EXPECT_EQ(engine_->clock(), 2);
  EXPECT_EQ(engine_->progress().blocked_ns, 0);
}

TEST_F(StagedEngineTest, ALeavingWorkerWaitsForWhatItHasAskedAhead) {
  Start("ssp:s=1", 1, 5);
  Reply(0, 0, 0);
  Reply(1, 0, 0);
  engine_->RequestLeave();
  RunDevice();
  EXPECT_EQ(Sent(MessageType::kPull), 4u);
  EXPECT_EQ(Sent(MessageType::kLeave), 0u);
  Reply(0, 1, 0);
  Reply(1, 1, 0);
  EXPECT_TRUE(engine_->left());
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
