#include "scheduler/checkpoint_orders.h"

#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::scheduler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CheckpointOrdersTest : public testing::Test {
 protected:
  // The clock that is ordered now; none: nothing is.
  std::optional<Clock> Order(Clock newest, Nanos now = 0) {
    wire::Outbox out;
    orders_.Look(now, newest, &out);
    if (out.messages.empty()) return std::nullopt;
    EXPECT_EQ(out.messages.size(), 2u);
    EXPECT_EQ(out.messages[0].to, wire::Address::Of(ShardId{0}));
    EXPECT_EQ(out.messages[1].to, wire::Address::Of(ShardId{2}));
    EXPECT_EQ(out.messages[0].type, wire::MessageType::kCheckpoint);
    EXPECT_EQ(out.messages[0].clock, out.messages[1].clock);
    return out.messages[0].clock;
  }
  void Answer(uint32_t shard, Clock clock, wire::Written written, Nanos now = 0) {
    wire::Message message;
    message.type = wire::MessageType::kWritten;
    message.from = wire::Address::Of(ShardId{shard});
    message.to = wire::Address::Scheduler();
    message.clock = clock;
    const uint64_t sums[] = {11, 12};
    if (written.error.empty() && written.frontier < 0) {
      message.payload = {Buffer::CopyOf(absl::MakeConstSpan(sums))};
    }
    message.body = std::move(written);
    orders_.OnWritten(now, message);
  }
  void Write(Clock clock) {
    Answer(0, clock, {.bytes = 100});
    Answer(2, clock, {.bytes = 200});
  }

  CheckpointOrders orders_{{.every = 10,
                            .first = 40,
                            .end = 100,
                            .shards = {ShardId{0}, ShardId{2}},
                            .patience_ns = 60 * kSecond}};
};

TEST_F(CheckpointOrdersTest, OneAfterAnotherAndWholeWhenAllHaveWritten) {
  EXPECT_EQ(Order(40), 50);
  EXPECT_EQ(Order(45), std::nullopt);
  Answer(2, 50, {.bytes = 200});
  EXPECT_FALSE(orders_.TakeWhole().has_value());
  Answer(2, 50, {.bytes = 200});  // said again
  EXPECT_FALSE(orders_.TakeWhole().has_value());
  Answer(0, 50, {.bytes = 100});
  const auto whole = orders_.TakeWhole();
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->clock, 50);
  EXPECT_EQ(whole->parts.at(ShardId{2}).bytes, 200u);
  EXPECT_THAT(whole->parts.at(ShardId{0}).blocks, ElementsAre(11, 12));
  EXPECT_FALSE(orders_.TakeWhole().has_value());
  EXPECT_EQ(Order(58), std::nullopt);  // it is being committed
  orders_.OnCommitted(50, "");
  EXPECT_EQ(orders_.committed(), 1u);
  EXPECT_EQ(Order(62), 70);  // 60 is past
  EXPECT_THAT(orders_.TakeNews(), IsEmpty());
}

TEST_F(CheckpointOrdersTest, NoneAtTheEndNorAfterItIsStopped) {
  EXPECT_EQ(Order(89), 90);
  Write(90);
  ASSERT_TRUE(orders_.TakeWhole().has_value());
  orders_.OnCommitted(90, "");
  EXPECT_EQ(Order(91), std::nullopt);
}

TEST_F(CheckpointOrdersTest, StoppedThereIsNoMore) {
  orders_.Stop();
  EXPECT_EQ(Order(40), std::nullopt);
}

// However far shards are by the time that they hear it: after some orders one is in time.
TEST_F(CheckpointOrdersTest, OrdersThatComeTooLateGetALongerLead) {
  CheckpointOrders orders({.every = 1, .end = 1'000'000, .shards = {ShardId{0}, ShardId{2}}});
  constexpr Clock kHeardLater = 700;  // clocks
  Clock at = 0;
  int late = 0;
  for (; late < 30; ++late) {
    wire::Outbox out;
    orders.Look(0, at, &out);
    ASSERT_EQ(out.messages.size(), 2u) << late;
    const Clock clock = out.messages[0].clock;
    at += kHeardLater;
    if (at <= clock) break;
    for (const uint32_t shard : {0, 2}) {
      wire::Message message;
      message.type = wire::MessageType::kWritten;
      message.from = wire::Address::Of(ShardId{shard});
      message.body = wire::Written{.frontier = at};
      orders.OnWritten(0, message);
    }
  }
  EXPECT_LT(late, 4);
  EXPECT_EQ(orders.failed(), 0u);
  EXPECT_THAT(orders.TakeNews(), IsEmpty());
}

TEST_F(CheckpointOrdersTest, WhatFailsIsSaidOnceUntilOneIsWrittenAgain) {
  EXPECT_EQ(Order(40), 50);
  Answer(0, 50, {.error = "disk full"});
  EXPECT_THAT(orders_.TakeNews(), ElementsAre(HasSubstr("shard 0: disk full")));
  EXPECT_THAT(orders_.TakeGivenUp(), ElementsAre(50));
  EXPECT_THAT(orders_.TakeGivenUp(), IsEmpty());
  Answer(2, 50, {.bytes = 200});  // of what was given up
  EXPECT_EQ(Order(52), 60);
  EXPECT_FALSE(orders_.TakeWhole().has_value());
  Answer(2, 60, {.error = "disk full"});
  EXPECT_THAT(orders_.TakeNews(), IsEmpty());
  EXPECT_EQ(orders_.failed(), 2u);
  EXPECT_EQ(Order(62), 70);
  Write(70);
  ASSERT_TRUE(orders_.TakeWhole().has_value());
  orders_.OnCommitted(70, "");
  EXPECT_THAT(orders_.TakeNews(), ElementsAre(HasSubstr("written again")));
}

TEST_F(CheckpointOrdersTest, AShardThatNeverAnswersIsNotWaitedForForEver) {
  EXPECT_EQ(Order(40), 50);
  EXPECT_EQ(Order(49, 1000 * kSecond), std::nullopt);  // nobody has come there yet
  Answer(0, 50, {.bytes = 1}, 1000 * kSecond);
  EXPECT_EQ(Order(55, 1060 * kSecond), std::nullopt);
  EXPECT_EQ(Order(55, 1061 * kSecond), 60);
  EXPECT_THAT(orders_.TakeNews(), ElementsAre(HasSubstr("not written after 60 s")));
}

TEST_F(CheckpointOrdersTest, OtherMessagesChangeNothing) {
  EXPECT_EQ(Order(40), 50);
  Answer(1, 50, {.bytes = 1});  // has no parameters
  Answer(0, 40, {.bytes = 1});  // of another clock
  Answer(2, 50, {.bytes = 1});
  EXPECT_FALSE(orders_.TakeWhole().has_value());
  orders_.OnCommitted(50, "");
  EXPECT_EQ(orders_.committed(), 0u);
}

}  // namespace
}  // namespace soapstone::scheduler
