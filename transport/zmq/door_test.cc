#include "transport/zmq/door.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr DoorLimits kLimits = {.bytes_max = 100,
                                .total_bytes_max = 1600,
                                .connections_max = 8,
                                .ends_max = 2,
                                .patience = absl::Seconds(10)};

class DoorTest : public testing::Test {
 protected:
  void Enter(int fd, uint64_t bytes) {
    door_.Enter(fd, false, now_);
    door_.Count(fd, bytes);
  }
  void Round(uint64_t round) { door_.Round(round, now_); }
  Door::Orders Look() { return door_.Look(now_); }

  SteadyTime now_;
  Door door_{kLimits};
};

TEST_F(DoorTest, WhoSendsTooMuchIsHeldOnceAndEndedAfterAWhile) {
  Enter(1, 100);
  EXPECT_THAT(Look().hold, IsEmpty());
  door_.Count(1, 101);
  EXPECT_THAT(Look().hold, ElementsAre(1));
  EXPECT_TRUE(door_.IsHeld(1));
  EXPECT_THAT(Look().hold, IsEmpty());
  EXPECT_EQ(door_.strangers(), 0u) << "it may be a member";
  now_ += absl::Seconds(9);
  EXPECT_THAT(Look().end, IsEmpty());
  EXPECT_EQ(door_.strangers(), 1u);
  now_ += absl::Seconds(1);
  EXPECT_THAT(Look().end, ElementsAre(1));
  EXPECT_THAT(Look().end, IsEmpty());
  EXPECT_EQ(door_.unproven_count(), 0u);
  EXPECT_EQ(door_.strangers(), 1u);
}

TEST_F(DoorTest, AProofEndsTheCount) {
  Enter(1, 101);
  EXPECT_THAT(Look().hold, ElementsAre(1));
  EXPECT_TRUE(door_.Prove(1));
  door_.Count(1, 1 << 20);
  EXPECT_FALSE(door_.IsUnproven(1));
  now_ += absl::Hours(1);
  const Door::Orders orders = Look();
  EXPECT_THAT(orders.hold, IsEmpty());
  EXPECT_THAT(orders.end, IsEmpty());
}

TEST_F(DoorTest, AProofIsOfOneConnection) {
  Enter(1, 10);
  EXPECT_TRUE(door_.Prove(1));
  door_.Leave(1, now_);
  Enter(1, 10);
  EXPECT_TRUE(door_.IsUnproven(1));
}

// What was sent by who had the descriptor before is read once the node, which reads, has found
// nothing left.
TEST_F(DoorTest, ALateMessageOfWhoLeftProvesNobodyElse) {
  Round(1);
  Enter(1, 10);
  EXPECT_TRUE(door_.Prove(1));
  door_.Leave(1, now_);
  Enter(1, 10);
  EXPECT_FALSE(door_.Prove(1));
  now_ += absl::Hours(1);
  Round(1);
  EXPECT_FALSE(door_.Prove(1)) << "it reads still";
  Round(2);
  EXPECT_TRUE(door_.Prove(1));
}

TEST_F(DoorTest, WhatCameWhileTheNodeSleptIsReadAfterItWoke) {
  Round(2);
  Enter(1, 10);
  door_.Leave(1, now_);
  Enter(1, 10);
  now_ += absl::Milliseconds(19);
  Round(2);
  EXPECT_FALSE(door_.Prove(1)) << "it may not have woken yet";
  Round(3);
  EXPECT_FALSE(door_.Prove(1));
  Round(4);
  EXPECT_TRUE(door_.Prove(1));
}

TEST_F(DoorTest, WhatDoesNotWakeTheNodeDidNotReachIt) {
  Round(2);
  Enter(1, 10);
  door_.Leave(1, now_);
  Enter(1, 10);
  now_ += Door::kSettled;
  Round(2);
  EXPECT_TRUE(door_.Prove(1));
}

// A member that got a stranger's descriptor, and whose proof was read too early to be believed.
TEST_F(DoorTest, WhoIsDoubtedAndHeldComesAgainAtOnceAndIsNoStranger) {
  Round(1);
  Enter(1, 10);
  door_.Leave(1, now_);
  Enter(1, 200);
  EXPECT_FALSE(door_.Prove(1));
  Door::Orders orders = Look();
  EXPECT_THAT(orders.hold, ElementsAre(1));
  EXPECT_THAT(orders.end, IsEmpty());
  Round(2);
  EXPECT_THAT(Look().end, ElementsAre(1));
  EXPECT_EQ(door_.strangers(), 0u);
}

TEST_F(DoorTest, OfTooManyWhoIsHeldGoesFirstThenTheOldest) {
  for (const int fd : {9, 8, 7, 6, 5, 4, 3, 2}) Enter(fd, 0);
  door_.Count(4, 101);
  EXPECT_THAT(Look().hold, ElementsAre(4));
  Enter(1, 0);
  EXPECT_THAT(Look().end, ElementsAre(4));
  Enter(10, 0);
  EXPECT_THAT(Look().end, ElementsAre(9));
  EXPECT_EQ(door_.unproven_count(), 8u);
}

// However many come and say nothing: who has tried to say something stays until it is heard.
TEST_F(DoorTest, WhoHasSpokenStaysWhoHasNotGoes) {
  door_.Enter(100, /*held=*/true, now_);
  door_.Tried(100);
  Enter(101, 64);
  for (int fd = 1; fd < 100; ++fd) {
    Enter(fd, 0);
    Look();
    now_ += absl::Milliseconds(1);
    ASSERT_TRUE(door_.IsUnproven(100) && door_.IsUnproven(101)) << fd;
  }
  EXPECT_EQ(door_.unproven_count(), 8u);
}

// Where all speak, one that came early has a chance to be there still when many have come.
TEST_F(DoorTest, OfThoseThatSpokeOneGoesByChance) {
  int stayed = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Door door(kLimits, seed + 1);
    for (int fd = 0; fd < 24; ++fd) {
      door.Enter(fd, false, now_);
      door.Count(fd, 64);
      door.Look(now_);
    }
    stayed += door.IsUnproven(0) ? 1 : 0;
    EXPECT_EQ(door.unproven_count(), 8u);
  }
  // (8/9)^16 = 0.15.
  EXPECT_GT(stayed, 4);
  EXPECT_LT(stayed, 40);
}

TEST_F(DoorTest, WhereAllTogetherSentTooMuchNobodySaysMoreAndWhoIsBlamedGoesSooner) {
  Enter(1, 700);
  Enter(2, 900);
  const Door::Orders orders = Look();
  EXPECT_THAT(orders.hold, ElementsAre(1, 2));
  EXPECT_THAT(orders.end, IsEmpty());
  Enter(3, 1);
  EXPECT_THAT(Look().hold, ElementsAre(3)) << "1,601 bytes";
  now_ += Door::kBlamedAfter;
  EXPECT_THAT(Look().end, ElementsAre(1, 2));
  EXPECT_TRUE(door_.IsHeld(3)) << "what they sent may be unread";
  Round(1);
  Round(2);
  EXPECT_THAT(Look().let_go_on, ElementsAre(3));
}

TEST_F(DoorTest, AllWaitWhileWhatOthersLeftIsUnread) {
  Round(1);
  for (int round = 0; round < 17; ++round) {
    Enter(1, 100);
    door_.Leave(1, now_);
  }
  Enter(2, 0);
  Enter(3, 0);
  EXPECT_TRUE(door_.Prove(3)) << "has never left";
  EXPECT_THAT(Look().hold, ElementsAre(2)) << "1,700 bytes";
  now_ += absl::Hours(1);
  EXPECT_THAT(Look().end, IsEmpty()) << "it is not to blame";
  Round(2);
  EXPECT_THAT(Look().let_go_on, ElementsAre(2));
}

// However long the node does not read, and however many come, no more is remembered of them.
TEST_F(DoorTest, WhoEndedUnseenMayHaveSentAllThatIsAllowed) {
  Round(1);
  for (int i = 0; i < 17; ++i) door_.EnterUnseen(1, now_);
  Enter(4, 1);
  EXPECT_THAT(Look().hold, ElementsAre(4));
}

TEST_F(DoorTest, WhatTheNodeDoesNotReadIsForgottenWhereItWaitsForMessages) {
  for (int i = 0; i < 17; ++i) door_.EnterUnseen(1, now_);
  now_ += Door::kSettled;
  Round(0);
  Enter(4, 1);
  EXPECT_THAT(Look().hold, IsEmpty());
}

TEST_F(DoorTest, TheDoorIsShutForAWhileWhereManyComeAndGo) {
  Enter(1, 0);
  door_.Leave(1, now_);
  now_ += Door::kComeAndGoTime;
  Enter(1, 0);
  door_.Leave(1, now_);
  EXPECT_FALSE(door_.shut(now_)) << "two in a second";
  now_ += absl::Milliseconds(999);
  Enter(1, 0);
  door_.Leave(1, now_);
  EXPECT_TRUE(door_.shut(now_));
  now_ += Door::kShutFor;
  EXPECT_FALSE(door_.shut(now_));
}

TEST_F(DoorTest, MembersThatLeaveDoNotShutTheDoor) {
  for (int i = 0; i < 10; ++i) {
    Enter(i, 0);
    EXPECT_TRUE(door_.Prove(i));
    door_.Leave(i, now_);
  }
  EXPECT_FALSE(door_.shut(now_));
}

TEST_F(DoorTest, WhoComesToAShutDoorBeginsHeldAndGoesOnSoon) {
  door_.Enter(1, true, now_);
  now_ += Door::kShutStay - absl::Milliseconds(1);
  EXPECT_THAT(Look().let_go_on, IsEmpty());
  EXPECT_TRUE(door_.IsHeld(1));
  now_ += absl::Milliseconds(1);
  EXPECT_THAT(Look().let_go_on, ElementsAre(1));
  EXPECT_FALSE(door_.IsHeld(1));
}

}  // namespace
}  // namespace soapstone::transport
