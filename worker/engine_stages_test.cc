// The engine with a layout by transfer stages: it asks ahead, and loads shard by shard.
#include <algorithm>

#include "gtest/gtest.h"
#include "worker/hand_played_engine.h"

namespace soapstone::worker {
namespace {

// Two layers in two transfer stages, a shard each.
class StagedEngineTest : public HandPlayedEngine {
 protected:
  StagedEngineTest() {
    layout_ = std::make_shared<const wire::Layout>(*wire::Layout::Build(
        {{.name = "first", .shape = {32, 1}}, {.name = "last", .shape = {32, 1}}},
        {.shard_count = 2, .transfer_stages = 2}));
    ops_ = {{{ParamId{0}}}, {{ParamId{1}}}};
  }

  template <typename What>
  size_t Ordered() const {
    return static_cast<size_t>(std::count_if(
        commands_.begin(), commands_.end(),
        [](const DeviceCommand& command) { return std::holds_alternative<What>(command.what); }));
  }
  // It hands over a bucket of shard 1.
  static bool CollectsOfShard1(const DeviceCommand& command) {
    const auto* collect = std::get_if<CollectBucket>(&command.what);
    return collect != nullptr && collect->shard == ShardId{1};
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
  EXPECT_EQ(Ordered<RunForward>(), 2u);
  commands_.clear();
  Start("bsp", 1, 5);
  Reply(0, 0, 0);
  EXPECT_EQ(Ordered<LoadCommand>(), 1u);
  EXPECT_EQ(Ordered<RunForward>(), 1u);
  EXPECT_EQ(Ordered<RunBackward>(), 0u);
}

TEST_F(StagedEngineTest, TheNextValuesAreAskedForWhileEarlierLayersRunBackward) {
  Start("bsp", 1, 5);
  out_.messages.clear();
  Reply(0, 0, 0);
  Reply(1, 0, 0);
  // The device hands over the last layer's gradient first.
  for (const DeviceCommand& command : commands_) {
    if (!CollectsOfShard1(command)) continue;
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
    if (CollectsOfShard1(command)) Reply(1, 1, 1);
  }
  EXPECT_EQ(engine_->clock(), 1);
  EXPECT_TRUE(commands_.empty());
  Reply(0, 1, 1);
  EXPECT_EQ(Ordered<LoadCommand>(), 2u);
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

TEST_F(StagedEngineTest, MicroBatchesOfALostWorkerNeedTheFormerParametersAgain) {
  MakeFirstStep(2);
  Reply(0, 1, 1);
  RunDevice();  // the first layer of step 1 has run forward
  out_.messages.clear();
  seen_.clear();
  LoseWorker1();
  ASSERT_FALSE(commands_.empty());
  const auto* load = std::get_if<LoadCommand>(&commands_.front().what);
  ASSERT_NE(load, nullptr);
  EXPECT_FALSE(load->shard.has_value());
  EXPECT_EQ(commands_.front().clock, 0);
  // Step 1 begins anew behind them.
  EXPECT_TRUE(std::holds_alternative<RunForward>(commands_.back().what));
  EXPECT_EQ(commands_.back().clock, 1);
  RunDevice();
  EXPECT_EQ(seen_,
            (std::vector<std::string_view>{"load", "forward", "forward", "backward", "collect",
                                           "backward", "collect", "load", "forward"}));
  ASSERT_EQ(Sent(MessageType::kPush), 2u);
  EXPECT_EQ(out_.messages[0].clock, 0);
  EXPECT_EQ(wire::As<wire::Push>(out_.messages[0]).micro_batches, (MicroBatchRange{1, 2}));
  Reply(1, 1, 1);
  RunDevice();
  EXPECT_EQ(engine_->clock(), 2);
}

TEST_F(StagedEngineTest, TheFormerParametersAreStillLoadedBeforeTheFirstReply) {
  MakeFirstStep(2);
  Reply(1, 1, 1);
  LoseWorker1();
  ASSERT_FALSE(commands_.empty());
  EXPECT_TRUE(std::holds_alternative<RunForward>(commands_.front().what));
  EXPECT_EQ(commands_.front().clock, 0);
  EXPECT_EQ(Ordered<LoadCommand>(), 0u);
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

}  // namespace
}  // namespace soapstone::worker
