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
    layout_ = std::make_shared<const wire::Layout>(
        *wire::Layout::Build({{.name = "w", .shape = {64}}}, {.shard_count = 2}));
    engine_.emplace(EngineOptions{.id = WorkerId{0},
                                  .layout = layout_,
                                  .ops = std::make_shared<const std::vector<OpOutline>>(
                                      std::vector<OpOutline>{{{ParamId{0}}}}),
                                  .policy = *consistency::ParsePolicy(policy),
                                  .leaf_count = workers,
                                  .total_clocks = total_clocks,
                                  .train_samples = 100,
                                  .batch = 10});
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
                          {.run = command.run, .instruction = command.instruction, .samples = 1},
                          {&out_, &commands_});
      }
    }
  }

  size_t Sent(MessageType type) const {
    size_t count = 0;
    for (const Message& message : out_.messages) count += message.type == type ? 1 : 0;
    return count;
  }

  Nanos now_ = 0;
  std::shared_ptr<const wire::Layout> layout_;
  wire::Roster roster_;
  std::optional<Engine> engine_;
  wire::Outbox out_;
  std::vector<DeviceCommand> commands_;
  std::vector<Op> seen_;
};

TEST_F(EngineTest, NothingIsComputedBeforeAllShardsHaveAnswered) {
  Start("ssp:s=1", 1, 5);
  EXPECT_EQ(Sent(MessageType::kPull), 2u);
  Reply(0, 0, 0);
  EXPECT_TRUE(commands_.empty());
  Reply(1, 0, 0);
  EXPECT_FALSE(commands_.empty());
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
  EXPECT_EQ(out_.messages[0].leaves, (LeafRange{1, 2}));
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
  EXPECT_EQ(std::count(seen_.begin(), seen_.end(), Op::kUpdate), 2);
  EXPECT_EQ(engine_->clock(), 2);
  Reply(0, 0, 0);  // the exchange of round 0
  Reply(1, 0, 0);
  RunDevice();
  EXPECT_EQ(std::count(seen_.begin(), seen_.end(), Op::kElastic), 1);
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

}  // namespace
}  // namespace soapstone::worker
