// Shard: at a branch and at the root of a tree of servers.
#include "server/shard/hand_fed_shard.h"

namespace soapstone::server {
namespace {

// Three workers, of whom the branch of group 0 has two.
class BranchTest : public ShardTest {
 protected:
  void SetUp() override { Start("tree:group=2,s=1", 3, 3, "", ShardId{1}); }

  wire::Outbox SendValues(Clock clock, float value, uint32_t from = 0, size_t elements = 8) {
    Message reply = Data(MessageType::kPullReply, 0, clock);
    reply.from = Address::Of(ShardId{from});
    reply.payload.push_back(Buffer::CopyOf<float>(std::vector<float>(elements, value)));
    return Send(reply);
  }
};

TEST_F(BranchTest, ARoundGoesUpAsOnePushAndItsValuesComeBack) {
  const Message fetch = Send(Data(MessageType::kPull, 0, 0)).messages.at(0);
  EXPECT_EQ(fetch.type, MessageType::kPull);
  EXPECT_EQ(fetch.to, Address::Of(ShardId{0}));
  EXPECT_EQ(SendValues(0, 5).messages.at(0).payload.at(0).floats()[0], 5);
  Send(Push(0, 0, {0, 1}, 1));
  Send(Push(1, 0, {1, 2}, 2));
  Send(Clocked(0, 1, 1));
  EXPECT_TRUE(Send(Data(MessageType::kPull, 0, 1)).messages.empty());
  const std::vector<Message> up = Send(Clocked(1, 1, 1)).messages;
  ASSERT_EQ(up.size(), 3u);
  EXPECT_EQ(up[0].type, MessageType::kPush);
  EXPECT_EQ(up[0].worker, WorkerId{0});  // the group
  EXPECT_EQ(wire::As<wire::Push>(up[0]).micro_batches, (MicroBatchRange{0, 2}));
  EXPECT_EQ(wire::As<wire::Push>(up[0]).samples, 2u);
  EXPECT_EQ(up[0].payload.at(0).floats()[0], 3);
  EXPECT_EQ(up[1].type, MessageType::kClock);
  EXPECT_EQ(wire::As<wire::Completion>(up[1]).pushes, 1u);
  EXPECT_EQ(up[2].type, MessageType::kPull);
  const Message reply = SendValues(1, 7).messages.at(0);
  EXPECT_EQ(reply.to, Address::Of(WorkerId{0}));
  EXPECT_EQ(reply.clock, 1);
  EXPECT_EQ(reply.payload.at(0).floats()[0], 7);
}

TEST_F(BranchTest, OnlyItsRootsWellFormedValuesCount) {
  Send(Data(MessageType::kPull, 0, 0));
  EXPECT_TRUE(SendValues(0, 5, /*from=*/2).messages.empty());
  EXPECT_TRUE(SendValues(0, 5, 0, /*elements=*/7).messages.empty());
  EXPECT_TRUE(SendValues(1, 5).messages.empty());  // not asked for
  EXPECT_EQ(shard_->stats().rejects, 2u);
  EXPECT_EQ(SendValues(0, 5).messages.size(), 1u);
}

TEST_F(BranchTest, AWorkerOfAnotherGroupIsNoMember) {
  const Message refused = Send(Push(2, 0, {2, 3}, 1)).messages.at(0);
  EXPECT_EQ(refused.type, MessageType::kReject);
}

TEST_F(ShardTest, TheRootTakesBranchesForWorkers) {
  Start("tree:group=2,s=1", 3, 3);
  Message push = Push(1, 0, {2, 3}, 1);
  EXPECT_EQ(Send(push).messages.at(0).type, MessageType::kReject);  // worker 1 is of group 0
  push.from = Address::Of(ShardId{2});
  EXPECT_TRUE(Send(push).messages.empty());
  EXPECT_EQ(Value(), -1.0f);
}

}  // namespace
}  // namespace soapstone::server
