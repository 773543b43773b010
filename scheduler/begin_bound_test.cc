#include "scheduler/begin_bound.h"

#include <map>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::scheduler {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

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

}  // namespace
}  // namespace soapstone::scheduler
