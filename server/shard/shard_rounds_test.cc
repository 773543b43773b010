#include "server/shard/shard_rounds.h"

#include <gtest/gtest.h>

#include <vector>

namespace soapstone::server {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;

constexpr uint32_t kShards = 3;
constexpr uint32_t kWorkers = 4;

TEST(ShardRoundsTest, WhatIsHeldIsToldShardZero) {
  wire::Outbox out;
  ShardRounds(ShardId{2}, kShards).TellHeld(/*epoch=*/5, WorkerId{3}, /*clock=*/7, &out);
  ASSERT_EQ(out.messages.size(), 1u);
  const Message& held = out.messages[0];
  EXPECT_EQ(held.type, MessageType::kHeld);
  EXPECT_EQ(held.from, Address::Of(ShardId{2}));
  EXPECT_EQ(held.to, Address::Of(ShardId{0}));
  EXPECT_EQ(held.epoch, 5u);
  EXPECT_EQ(held.worker, WorkerId{3});
  EXPECT_EQ(held.clock, 7);
}

TEST(ShardRoundsTest, AChoiceIsToldEveryOtherShardOnce) {
  wire::Outbox out;
  const std::vector<WorkerId> chosen = {WorkerId{0}, WorkerId{2}};
  ShardRounds(ShardId{0}, kShards).TellChosen(/*epoch=*/5, chosen, /*clock=*/7, &out);
  ASSERT_EQ(out.messages.size(), kShards - 1);
  for (uint32_t k = 1; k < kShards; ++k) {
    const Message& message = out.messages[k - 1];
    EXPECT_EQ(message.type, MessageType::kChosen);
    EXPECT_EQ(message.to, Address::Of(ShardId{k}));
    EXPECT_EQ(message.from, Address::Of(ShardId{0}));
    EXPECT_EQ(message.clock, 7);
    EXPECT_EQ(std::get<wire::WorkerSet>(message.body).workers, chosen);
  }
}

TEST(ShardRoundsTest, WhatOneTellsTheOtherTakes) {
  wire::Outbox out;
  ShardRounds(ShardId{1}, kShards).TellHeld(1, WorkerId{3}, 0, &out);
  ShardRounds(ShardId{0}, kShards).TellChosen(1, {WorkerId{3}}, 0, &out);
  for (const Message& message : out.messages) {
    EXPECT_TRUE(ShardRounds(ShardId{message.to.index}, kShards).Takes(message, kWorkers));
  }
}

TEST(ShardRoundsTest, NobodyElseCanCloseARound) {
  const ShardRounds rounds(ShardId{1}, kShards);
  Message held;
  held.type = MessageType::kHeld;
  held.from = Address::Of(ShardId{2});
  held.worker = WorkerId{kWorkers - 1};
  EXPECT_TRUE(rounds.Takes(held, kWorkers));
  held.worker = WorkerId{kWorkers};  // no rank
  EXPECT_FALSE(rounds.Takes(held, kWorkers));
  held.worker = {};
  for (const Address from : {Address::Of(ShardId{kShards}), Address::Of(WorkerId{1}),
                             Address::Of(ServerId{0}), Address::Scheduler()}) {
    held.from = from;
    EXPECT_FALSE(rounds.Takes(held, kWorkers)) << from.ToString();
  }

  Message chosen;
  chosen.type = MessageType::kChosen;
  chosen.from = Address::Of(ShardId{0});
  EXPECT_FALSE(rounds.Takes(chosen, kWorkers));  // it says not whom
  chosen.body = wire::WorkerSet{{WorkerId{0}}};
  EXPECT_TRUE(rounds.Takes(chosen, kWorkers));
  chosen.from = Address::Of(ShardId{2});
  EXPECT_FALSE(rounds.Takes(chosen, kWorkers));
  chosen.from = Address::Of(WorkerId{0});
  EXPECT_FALSE(rounds.Takes(chosen, kWorkers));
}

}  // namespace
}  // namespace soapstone::server
