// Shard: who its members are, and when it says that a roster is installed.
#include "gmock/gmock.h"
#include "server/shard/hand_fed_shard.h"

namespace soapstone::server {
namespace {

using ::testing::HasSubstr;

TEST_F(ShardTest, MessageOfANonMemberIsRejectedWithTheReason) {
  Start("async", 1, 1);
  const wire::Outbox out = Send(Push(5, 0, {0, 1}, 1.0f));
  ASSERT_EQ(out.messages.size(), 1u);
  EXPECT_EQ(out.messages[0].type, MessageType::kReject);
  EXPECT_THAT(std::get<wire::Notice>(out.messages[0].body).text, HasSubstr("not a member"));
}

TEST_F(ShardTest, MessageFromBeforeItsWorkersAdmissionIsRejected) {
  Start("async", 1, 1);
  roster_.workers.Mutable()[0].admitted = 3;
  SendRoster(3);
  EXPECT_EQ(Send(Push(0, 0, {0, 1}, 1.0f)).messages.at(0).type, MessageType::kReject);
  EXPECT_EQ(Value(), 0.0f);
}

TEST_F(ShardTest, WorkerMayNotSpeakInAnothersName) {
  Start("async", 2, 2);
  Message push = Push(0, 0, {0, 1}, 1.0f);
  push.from = Address::Of(WorkerId{1});
  EXPECT_EQ(Send(push).messages.at(0).type, MessageType::kReject);
}

TEST_F(ShardTest, LostMemberReleasesTheFinalPull) {
  Start("async", 2, 2);
  Message pull = Data(MessageType::kPull, 0, 10);
  pull.body = wire::Pull{.final = true};
  Send(Clocked(0, 10, 0));
  Send(pull);
  roster_.workers.pop_back();
  const wire::Outbox out = SendRoster(2);
  ASSERT_EQ(out.messages.size(), 2u);
  EXPECT_EQ(out.messages[0].type, MessageType::kPullReply);
  EXPECT_EQ(out.messages[1].type, MessageType::kRosterAck);
}

TEST_F(ShardTest, NewcomerIsInstalledAtTheFrontier) {
  Start("ssp:s=1", 2, 2);
  for (uint32_t w = 0; w < 2; ++w) {
    Send(Push(w, 0, {w, w + 1}, 1.0f));
    Send(Clocked(w, 1, 1));
  }
  roster_.workers.pop_back();
  SendRoster(2);
  roster_.workers.push_back(
      {.worker = WorkerId{1}, .admitted = 3, .joining = true, .original = false});
  const wire::Outbox out = SendRoster(3);
  EXPECT_EQ(out.messages.at(0).clock, 1);
  EXPECT_EQ(shard_->policy().clocks().Of(WorkerId{1}), 1);
}

TEST_F(ShardTest, RosterIsAcknowledgedOnceTheStartOfEveryMemberIsReached) {
  Start("ssp:s=2", 2, 2);
  roster_.workers.pop_back();
  SendRoster(2);
  roster_.workers.push_back({.worker = WorkerId{1}, .start = 1, .admitted = 3, .original = false});
  EXPECT_TRUE(SendRoster(3).messages.empty());
  Send(Push(0, 0, {0, 1}, 1.0f));
  const wire::Outbox out = Send(Clocked(0, 1, 1));
  ASSERT_EQ(out.messages.size(), 1u);
  EXPECT_EQ(out.messages[0].type, MessageType::kRosterAck);
}

// Found by seed 5990 of the fuzzer: who was left had no update more to send, and the job stood
// still.
TEST_F(ShardTest, UpdatesKeptForABatchDoNotHoldUpANewcomer) {
  Start("softsync:n=1", 2, 2);
  roster_.workers.pop_back();
  SendRoster(2);
  roster_.workers.push_back({.worker = WorkerId{1}, .start = 1, .admitted = 3, .original = false});
  EXPECT_TRUE(SendRoster(3).messages.empty());
  EXPECT_TRUE(Send(Push(0, 0, {0, 1}, 1.0f)).messages.empty());
  EXPECT_EQ(Value(), 0.0f);  // a batch is of two
  const wire::Outbox out = Send(Clocked(0, 1, 1));
  ASSERT_EQ(out.messages.size(), 1u);
  EXPECT_EQ(out.messages[0].type, MessageType::kRosterAck);
  EXPECT_NE(Value(), 0.0f);
}

}  // namespace
}  // namespace soapstone::server
