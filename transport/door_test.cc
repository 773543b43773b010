#include "transport/door.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr absl::Time kStart = absl::UnixEpoch();
constexpr DoorLimits kLimits = {.bytes_max = 100,
                                .total_bytes_max = 250,
                                .connections_max = 3,
                                .returning_bytes_max = 1000,
                                .return_patience = absl::Seconds(60),
                                .little_bytes = 0};

class DoorTest : public testing::Test {
 protected:
  void Enter(int fd, uint64_t bytes, const char* host = "a") {
    EXPECT_TRUE(door_.Enter(fd, host, kStart));
    door_.Count(fd, bytes);
  }

  Door door_{kLimits};
};

TEST_F(DoorTest, WhoSendsTooMuchGoesOnce) {
  Enter(1, 100);
  EXPECT_THAT(door_.TakeUnwelcome(), IsEmpty());
  door_.Count(1, 101);
  EXPECT_THAT(door_.TakeUnwelcome(), ElementsAre(1));
  EXPECT_THAT(door_.TakeUnwelcome(), IsEmpty());
  EXPECT_EQ(door_.unproven_count(), 0u);
}

TEST_F(DoorTest, AProofEndsTheCount) {
  Enter(1, 100);
  door_.Prove(1);
  door_.Count(1, 1 << 20);
  EXPECT_FALSE(door_.IsUnproven(1));
  EXPECT_THAT(door_.TakeUnwelcome(), IsEmpty());
}

TEST_F(DoorTest, AProofBeforeTheNewsOfTheConnectionCounts) {
  door_.Prove(1);
  EXPECT_FALSE(door_.Enter(1, "a", kStart));
  EXPECT_EQ(door_.unproven_count(), 0u);
}

TEST_F(DoorTest, AProofIsOfOneConnection) {
  door_.Prove(1);
  EXPECT_FALSE(door_.Enter(1, "a", kStart));
  door_.Leave(1, kStart);
  EXPECT_TRUE(door_.Enter(1, "b", kStart));
}

TEST_F(DoorTest, ALateMessageOfWhoLeftProvesNobodyElse) {
  Enter(1, 10);
  door_.Prove(1);
  door_.Leave(1, kStart);
  door_.Prove(1);
  EXPECT_TRUE(door_.Enter(1, "b", kStart));
  door_.Prove(1);
  EXPECT_TRUE(door_.IsUnproven(1));
  door_.AllRead();
  door_.Prove(1);
  EXPECT_FALSE(door_.IsUnproven(1));
}

TEST_F(DoorTest, TheOldestGoesWhereThereAreTooMany) {
  for (const int fd : {5, 4, 3, 2}) Enter(fd, 0);
  EXPECT_THAT(door_.TakeUnwelcome(), ElementsAre(5));
  EXPECT_EQ(door_.unproven_count(), 3u);
}

TEST_F(DoorTest, WhatThoseWhoLeftHaveSentCountsUntilItIsRead) {
  for (int round = 0; round < 3; ++round) {
    Enter(1, 80);
    EXPECT_THAT(door_.TakeUnwelcome(), IsEmpty());
    door_.Leave(1, kStart);
  }
  Enter(1, 11);
  Enter(2, 0);
  EXPECT_THAT(door_.TakeUnwelcome(), ElementsAre(1)) << "240 + 11 bytes";
  door_.AllRead();
  Enter(1, 11);
  EXPECT_THAT(door_.TakeUnwelcome(), IsEmpty());
}

TEST(DoorLittleTest, WhoSentLittleStaysWhateverOthersDid) {
  Door door({.bytes_max = 100, .total_bytes_max = 250, .little_bytes = 10});
  for (const int fd : {1, 2, 3}) door.EnterUnseen(fd);
  door.Enter(4, "host", absl::UnixEpoch());
  door.Count(4, 10);
  door.Enter(5, "host", absl::UnixEpoch());
  door.Count(5, 11);
  EXPECT_THAT(door.TakeUnwelcome(), testing::ElementsAre(5));
}

TEST_F(DoorTest, WhoEndedUnseenMaySentAllThatIsAllowed) {
  for (const int fd : {1, 2, 3}) door_.EnterUnseen(fd);
  Enter(4, 1);
  EXPECT_THAT(door_.TakeUnwelcome(), ElementsAre(4));
}

TEST_F(DoorTest, OneMaySendMoreInThePlaceOfAProvenOneThatBroke) {
  Enter(1, 10);
  door_.Prove(1);
  door_.Leave(1, kStart);
  Enter(2, 900, "elsewhere");
  Enter(3, 900);
  Enter(4, 900);
  EXPECT_THAT(door_.TakeUnwelcome(), UnorderedElementsAre(2, 4));
  door_.AllRead();
  door_.Count(3, 1001);
  EXPECT_THAT(door_.TakeUnwelcome(), ElementsAre(3));
}

TEST_F(DoorTest, ThatPlaceIsHeldForAWhileOnly) {
  Enter(1, 10);
  door_.Prove(1);
  door_.Leave(1, kStart);
  EXPECT_TRUE(door_.Enter(2, "a", kStart + absl::Seconds(61)));
  door_.Count(2, 101);
  EXPECT_THAT(door_.TakeUnwelcome(), ElementsAre(2));
}

}  // namespace
}  // namespace soapstone::transport
