#include "worker/unanswered.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "worker/hand_played_engine.h"

namespace soapstone::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Message SaidOf(MessageType type, Clock clock, bool final = false) {
  Message message;
  message.type = type;
  message.clock = clock;
  if (type == MessageType::kPush) {
    message.body = wire::Push{};
    message.payload = {Buffer::CopyOf("12345678")};
  }
  if (type == MessageType::kClock) message.body = wire::Completion{};
  if (type == MessageType::kPull) message.body = wire::Pull{.final = final};
  return message;
}

std::vector<std::string> Kept(const Unanswered& unanswered) {
  std::vector<std::string> kept;
  for (const Message& message : unanswered.Of(ShardId{1})) {
    kept.push_back(std::string(wire::NameOf(message.type)) + std::to_string(message.clock));
  }
  return kept;
}

TEST(UnansweredTest, AnAnswerStandsForAllOfEarlierClocks) {
  Unanswered unanswered(2);
  const ShardId shard{1};
  for (const Clock c : {0, 1}) {
    unanswered.OnSent(shard, SaidOf(MessageType::kPush, c));
    unanswered.OnSent(shard, SaidOf(MessageType::kClock, c + 1));
    unanswered.OnSent(shard, SaidOf(MessageType::kPull, c + 1));
  }
  EXPECT_EQ(unanswered.bytes(), 16u);
  unanswered.OnAnswered(shard, AnswerOf(1, 1, 0));
  EXPECT_THAT(Kept(unanswered), ElementsAre("push1", "clock2", "pull2"));
  EXPECT_EQ(unanswered.bytes(), 8u);
  unanswered.OnAnswered(shard, AnswerOf(1, 0, 0));  // late
  EXPECT_THAT(Kept(unanswered), ElementsAre("push1", "clock2", "pull2"));
  unanswered.OnAnswered(shard, AnswerOf(1, 2, 1));
  EXPECT_THAT(Kept(unanswered), IsEmpty());
  EXPECT_EQ(unanswered.bytes(), 0u);
  EXPECT_THAT(unanswered.Of(ShardId{0}), IsEmpty());
}

TEST(UnansweredTest, APullThatIsRepeatedStandsOnceAndLast) {
  Unanswered unanswered(2);
  unanswered.OnSent(ShardId{1}, SaidOf(MessageType::kPull, 1));
  unanswered.OnSent(ShardId{1}, SaidOf(MessageType::kPush, 1));
  unanswered.OnSent(ShardId{1}, SaidOf(MessageType::kPull, 1));
  EXPECT_THAT(Kept(unanswered), ElementsAre("push1", "pull1"));
}

// The last values are asked for once all is pushed; an answer of a clock is not theirs.
TEST(UnansweredTest, TheLastAnswerStandsForAll) {
  Unanswered unanswered(2);
  unanswered.OnSent(ShardId{1}, SaidOf(MessageType::kPush, 9));
  unanswered.OnSent(ShardId{1}, SaidOf(MessageType::kClock, 10));
  unanswered.OnSent(ShardId{1}, SaidOf(MessageType::kPull, 10, /*final=*/true));
  unanswered.OnAnswered(ShardId{1}, AnswerOf(1, 9, 8));
  EXPECT_THAT(Kept(unanswered), ElementsAre("push9", "clock10", "pull10"));
  Message last = AnswerOf(1, 10, 10);
  last.body = wire::PullReply{.final = true};
  unanswered.OnAnswered(ShardId{1}, last);
  EXPECT_THAT(Kept(unanswered), IsEmpty());
}

TEST(UnansweredTest, WithoutReplicasNothingIsKept) {
  Unanswered unanswered(0);
  unanswered.OnSent(ShardId{1}, SaidOf(MessageType::kPush, 0));
  unanswered.OnAnswered(ShardId{1}, AnswerOf(1, 1, 0));
  EXPECT_EQ(unanswered.bytes(), 0u);
  EXPECT_EQ(unanswered.shards(), 0u);
}

}  // namespace
}  // namespace soapstone::worker
