#include "scheduler/checkpoints/checkpoint_orders.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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
    orders_.Look(now, newest, roster_, &out);
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
    orders_.OnMessage(now, message);
  }
  void Write(Clock clock) {
    Answer(0, clock, {.bytes = 100});
    Answer(2, clock, {.bytes = 200});
  }

  // What is said to whom: 'B', 'C', and of all the same clock.
  std::string Said(Nanos now = 0, Clock newest = 40) {
    wire::Outbox out;
    orders_.Look(now, newest, roster_, &out);
    std::string said;
    for (const wire::Message& message : out.messages) {
      const auto* bound = std::get_if<wire::Bound>(&message.body);
      if (bound != nullptr) number_ = bound->number;
      said += absl::StrCat(said.empty() ? "" : " ", bound != nullptr ? "bound " : "capture ",
                           message.to.ToString(), " ", message.clock);
    }
    return said;
  }
  void Bounded(Clock clock, const std::vector<uint32_t>& workers = {0, 1}) {
    for (const uint32_t worker : workers) {
      wire::Message message;
      message.type = wire::MessageType::kBounded;
      message.from = wire::Address::Of(WorkerId{worker});
      message.epoch = 1;
      message.clock = clock;
      message.body = wire::Bound{.number = number_};
      orders_.OnMessage(0, message);
    }
  }
  void Captured(uint32_t shard, Clock clock) {
    wire::Message message;
    message.type = wire::MessageType::kCaptured;
    message.from = wire::Address::Of(ShardId{shard});
    message.clock = clock;
    orders_.OnMessage(0, message);
  }
  void MakeAligned() {
    orders_ = CheckpointOrders({.every = 10,
                                .end = 100,
                                .shards = {ShardId{0}, ShardId{2}},
                                .patience_ns = 60 * kSecond,
                                .aligned = true});
  }

  wire::Roster roster_ = {
      .workers = {{.worker = WorkerId{0}, .admitted = 1}, {.worker = WorkerId{1}, .admitted = 1}}};
  uint32_t number_ = 0;
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
  orders_.OnCommitted(0, 50, "");
  EXPECT_EQ(orders_.committed(), 1u);
  EXPECT_EQ(Order(62), 70);  // 60 is past
  EXPECT_THAT(orders_.TakeNews(), IsEmpty());
}

TEST_F(CheckpointOrdersTest, NoneAtTheEndNorAfterItIsStopped) {
  EXPECT_EQ(Order(89), 90);
  Write(90);
  ASSERT_TRUE(orders_.TakeWhole().has_value());
  orders_.OnCommitted(0, 90, "");
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
    orders.Look(0, at, roster_, &out);
    ASSERT_EQ(out.messages.size(), 2u) << late;
    const Clock clock = out.messages[0].clock;
    at += kHeardLater;
    if (at <= clock) break;
    for (const uint32_t shard : {0, 2}) {
      wire::Message message;
      message.type = wire::MessageType::kWritten;
      message.from = wire::Address::Of(ShardId{shard});
      message.body = wire::Written{.frontier = at};
      orders.OnMessage(0, message);
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
  orders_.OnCommitted(0, 70, "");
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
  orders_.OnCommitted(0, 50, "");
  EXPECT_EQ(orders_.committed(), 0u);
}

TEST_F(CheckpointOrdersTest, OfAnAlignedOneShardsHearWhenAllAreBoundAndWorkersWhenAllAreCaptured) {
  MakeAligned();
  EXPECT_EQ(Said(), "bound worker-0 50 bound worker-1 50");
  EXPECT_EQ(Said(), "");
  Bounded(50, {1});
  EXPECT_EQ(Said(), "");
  Bounded(50, {0});
  EXPECT_EQ(Said(), "capture shard-0 50 capture shard-2 50");
  Captured(0, 50);
  EXPECT_EQ(Said(), "");
  Captured(2, 49);
  EXPECT_EQ(Said(), "");
  Captured(2, 50);
  EXPECT_EQ(Said(), "bound worker-0 100 bound worker-1 100");
  Bounded(100);
  Write(50);
  ASSERT_TRUE(orders_.TakeWhole().has_value());
  EXPECT_EQ(Said(), "");
  orders_.OnCommitted(0, 50, "");
  EXPECT_EQ(Said(0, 53), "bound worker-0 60 bound worker-1 60");
}

TEST_F(CheckpointOrdersTest, AnAlignedOneThatTakesTooLongIsGivenUpAndTheWorkersGoOn) {
  MakeAligned();
  Said();
  EXPECT_EQ(Said(60 * kSecond), "bound worker-0 50 bound worker-1 50");      // again
  EXPECT_EQ(Said(61 * kSecond, 41), "bound worker-0 60 bound worker-1 60");  // who waits goes on
  EXPECT_THAT(orders_.TakeNews(), ElementsAre(HasSubstr("not written after 60 s")));
  Bounded(60);
  Said(62 * kSecond);
  Captured(0, 60);
  EXPECT_EQ(Said(122 * kSecond), "");
  EXPECT_EQ(Said(123 * kSecond), "bound worker-0 70 bound worker-1 70");
  EXPECT_THAT(orders_.TakeGivenUp(), ElementsAre(60));
}

TEST_F(CheckpointOrdersTest, WhereOneThatJoinsIsNotBoundWhatIsCapturedIsGivenUp) {
  MakeAligned();
  Said();
  Bounded(50);
  Said();
  Captured(0, 50);
  roster_.workers.pop_back();
  roster_.workers.push_back({.worker = WorkerId{1}, .admitted = 3});
  EXPECT_EQ(Said(), "bound worker-1 50");
  wire::Message message;
  message.type = wire::MessageType::kBounded;
  message.from = wire::Address::Of(WorkerId{1});
  message.epoch = 3;
  message.clock = 51;
  message.body = wire::Bound{.number = number_};
  orders_.OnMessage(0, message);
  EXPECT_EQ(Said(), "bound worker-0 60 bound worker-1 60");
  message.clock = 60;
  message.body = wire::Bound{.number = number_};
  orders_.OnMessage(0, message);
  Bounded(60, {0});
  EXPECT_EQ(Said(), "bound worker-0 100 bound worker-1 100");
  EXPECT_THAT(orders_.TakeGivenUp(), ElementsAre(50));
  EXPECT_EQ(Said(), "bound worker-0 60 bound worker-1 60");
}

TEST_F(CheckpointOrdersTest, AnEndIsAtTheFirstClockThatNobodyHasBegun) {
  EXPECT_EQ(Said(), "capture shard-0 50 capture shard-2 50");
  orders_.End();
  EXPECT_TRUE(orders_.ending());
  EXPECT_EQ(Said(), "bound worker-0 0 bound worker-1 0");
  Bounded(43, {0});
  Bounded(42, {1});
  EXPECT_EQ(Said(), "bound worker-0 43 bound worker-1 43");
  Bounded(43);
  EXPECT_EQ(Said(), "capture shard-0 43 capture shard-2 43");
  Captured(0, 43);
  Captured(2, 43);
  EXPECT_EQ(Said(), "");  // they stay
  Write(43);
  ASSERT_TRUE(orders_.TakeWhole().has_value());
  orders_.OnCommitted(0, 43, "");
  EXPECT_EQ(orders_.ended_at(), std::nullopt);
  EXPECT_EQ(Said(), "");
  EXPECT_EQ(orders_.ended_at(), 43);
  EXPECT_EQ(Said(9 * kSecond), "");
}

TEST_F(CheckpointOrdersTest, WhatIsBeingWrittenIsWrittenBeforeTheEnd) {
  Said();
  Captured(0, 50);
  orders_.End();
  Said();
  Bounded(51);
  Said();
  Bounded(51);
  EXPECT_EQ(Said(), "");
  Write(50);
  ASSERT_TRUE(orders_.TakeWhole().has_value());
  EXPECT_EQ(Said(), "");
  orders_.OnCommitted(0, 50, "");
  EXPECT_EQ(Said(), "capture shard-0 51 capture shard-2 51");
}

TEST_F(CheckpointOrdersTest, AtTheClockOfTheLastCheckpointTheEndNeedsNoOther) {
  orders_.End();
  Said();
  Bounded(40);
  Said();
  Bounded(40);
  EXPECT_EQ(Said(), "");
  EXPECT_EQ(orders_.ended_at(), 40);
}

TEST_F(CheckpointOrdersTest, WhatFailsOfAnEndIsTriedAgainOnceAllShardsHaveSaidWhatBecameOfIt) {
  orders_.End();
  Said();
  Bounded(43);
  Said();
  Bounded(43);
  EXPECT_EQ(Said(), "capture shard-0 43 capture shard-2 43");
  Answer(0, 43, {.error = "disk full"}, kSecond);
  EXPECT_EQ(Said(9 * kSecond), "");
  Answer(2, 43, {.bytes = 1}, 9 * kSecond);
  EXPECT_THAT(orders_.TakeNews(), ElementsAre(HasSubstr("and is tried again: shard 0: disk full")));
  EXPECT_EQ(Said(9 * kSecond), "");
  EXPECT_EQ(Said(10 * kSecond), "capture shard-0 43 capture shard-2 43");
  orders_.GiveUpEnd();
  EXPECT_EQ(Said(10 * kSecond),
            "capture shard-0 50 capture shard-2 50 bound worker-0 100 bound worker-1 100");
}

TEST_F(CheckpointOrdersTest, WhereTheLastClockIsBegunThereIsNoEndWithACheckpoint) {
  orders_.End();
  Said();
  Bounded(99, {0});
  Bounded(100, {1});
  EXPECT_EQ(Said(), "bound worker-0 100 bound worker-1 100");
  Bounded(100);
  EXPECT_EQ(Said(), "");
  EXPECT_FALSE(orders_.ending());
  EXPECT_EQ(orders_.ended_at(), std::nullopt);
}

// ---- Its part that binds the workers (begin_bound.h)

constexpr Clock kEnd = 100;

wire::Member MemberOf(uint32_t rank, Epoch admitted = 1) {
  return {.worker = WorkerId{rank}, .admitted = admitted};
}

class BeginBoundTest : public testing::Test {
 protected:
  BeginBoundTest() { roster_.workers = {MemberOf(0), MemberOf(1)}; }

  // Whom it tells, and of what clock: all of the same.
  std::vector<uint32_t> Look(Nanos now = 0) {
    wire::Outbox out;
    bound_.Look(now, roster_, &out);
    std::vector<uint32_t> told;
    for (const wire::Message& message : out.messages) {
      EXPECT_EQ(message.type, wire::MessageType::kBound);
      EXPECT_EQ(message.to.role, wire::Role::kWorker);
      told.push_back(message.to.index);
      number_ = wire::As<wire::Bound>(message).number;
      clock_ = message.clock;
    }
    return told;
  }
  void Answer(uint32_t worker, Clock clock, Epoch epoch = 1,
              std::optional<uint32_t> number = std::nullopt) {
    wire::Message message;
    message.type = wire::MessageType::kBounded;
    message.from = wire::Address::Of(WorkerId{worker});
    message.epoch = epoch;
    message.clock = clock;
    message.body = wire::Bound{.number = number.value_or(number_)};
    bound_.OnBounded(message);
  }
  std::optional<Clock> At() const { return bound_.At(roster_); }

  BeginBound bound_{{.end = kEnd, .repeat_ns = kSecond}};
  wire::Roster roster_;
  uint32_t number_ = 0;
  Clock clock_ = 0;
};

TEST_F(BeginBoundTest, AllAreBoundWhenAllHaveSaidSo) {
  EXPECT_THAT(Look(), IsEmpty());
  bound_.Bind(20, 10);
  EXPECT_TRUE(bound_.holds());
  EXPECT_THAT(Look(), ElementsAre(0, 1));
  EXPECT_EQ(clock_, 20);
  EXPECT_THAT(Look(), IsEmpty());
  Answer(1, 20);
  EXPECT_EQ(At(), std::nullopt);
  Answer(0, 20);
  EXPECT_EQ(At(), 20);
}

TEST_F(BeginBoundTest, WhereSomeHaveBegunItALaterMultipleIsTriedThatNobodyHas) {
  bound_.Bind(20, 10);
  Look();
  Answer(0, 33);
  EXPECT_THAT(Look(), IsEmpty());  // the other may be further
  Answer(1, 20);
  EXPECT_EQ(At(), std::nullopt);
  EXPECT_THAT(Look(), ElementsAre(0, 1));
  EXPECT_EQ(clock_, 40);
  Answer(0, 40);
  Answer(1, 40);
  EXPECT_EQ(At(), 40);
}

TEST_F(BeginBoundTest, AsSoonAsMayBeIsTheFirstThatNobodyHasBegun) {
  bound_.Bind(0, 1);
  Look();
  EXPECT_EQ(clock_, 0);
  Answer(0, 33);
  Answer(1, 31);
  Look();
  EXPECT_EQ(clock_, 33);
}

TEST_F(BeginBoundTest, BehindTheLastClockNobodyIsHeld) {
  bound_.Bind(0, 1);
  Look();
  Answer(0, 99);
  Answer(1, kEnd);
  Look();
  EXPECT_EQ(clock_, kEnd);
  EXPECT_FALSE(bound_.holds());
}

TEST_F(BeginBoundTest, WhoDoesNotAnswerIsToldAgainAndWhoHasGoneIsNotWaitedFor) {
  bound_.Bind(20, 10);
  Look();
  Answer(0, 20);
  EXPECT_THAT(Look(kSecond - 1), IsEmpty());
  EXPECT_THAT(Look(kSecond), ElementsAre(1));
  roster_.workers.pop_back();
  EXPECT_THAT(Look(kSecond), IsEmpty());
  EXPECT_EQ(At(), 20);
}

TEST_F(BeginBoundTest, WhoJoinsIsBoundTooAndTheRanksFormerHolderDoesNotAnswerForIt) {
  bound_.Bind(20, 10);
  Look();
  Answer(0, 20);
  Answer(1, 20);
  roster_.workers = {MemberOf(0), MemberOf(1, 5)};
  EXPECT_EQ(At(), std::nullopt);
  EXPECT_THAT(Look(), ElementsAre(1));
  Answer(1, 20, 4);
  EXPECT_EQ(At(), std::nullopt);
  Answer(1, 20, 5);
  EXPECT_EQ(At(), 20);
}

TEST_F(BeginBoundTest, AnswersToOtherOrdersAndOfStrangersChangeNothing) {
  bound_.Bind(20, 10);
  Look();
  Answer(0, 20, 1, number_ + 1);
  Answer(0, 20, 1, number_ - 1);
  Answer(7, 20);
  Answer(0, 19);  // below what it was asked for
  Answer(1, 20);
  EXPECT_EQ(At(), std::nullopt);
}

TEST_F(BeginBoundTest, LiftedAllAreToldUntilTheyHaveAnswered) {
  bound_.Bind(20, 10);
  Look();
  Answer(0, 20);
  Answer(1, 20);
  bound_.Lift();
  EXPECT_FALSE(bound_.holds());
  EXPECT_THAT(Look(), ElementsAre(0, 1));
  EXPECT_EQ(clock_, kEnd);
  Answer(0, kEnd);
  EXPECT_THAT(Look(kSecond), ElementsAre(1));
  Answer(1, kEnd);
  EXPECT_THAT(Look(3 * kSecond), IsEmpty());
  EXPECT_EQ(At(), std::nullopt);
  bound_.Lift();  // of nothing
  EXPECT_THAT(Look(9 * kSecond), IsEmpty());
}

// What the former one has written nobody says; the next is ordered as ever.
TEST_F(CheckpointOrdersTest, AShardThatGoesOnElsewhereCostsTheCheckpointUnderWay) {
  const auto chain = [](uint32_t head) { return wire::Chain{{{ServerId{head}, 0}}}; };
  roster_.chains = {chain(0), chain(1), chain(2)};
  const std::optional<Clock> first = Order(3);
  Answer(0, *first, {.bytes = 100});
  roster_.chains = {chain(0), chain(2), chain(2)};  // shard 1 has no parameters
  EXPECT_FALSE(Order(4).has_value());
  roster_.chains = {chain(0), chain(2), chain(0)};
  const std::optional<Clock> next = Order(4);
  EXPECT_THAT(orders_.TakeGivenUp(), ElementsAre(*first));
  ASSERT_TRUE(next.has_value());
  Write(*next);
  EXPECT_TRUE(orders_.TakeWhole().has_value());
}

}  // namespace
}  // namespace soapstone::scheduler
