#include "wire/membership/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/leaf_tree.h"
#include "base/random.h"
#include "wire/membership/teams.h"

namespace soapstone::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Members are the ranks whose bit is set.
Roster RosterOf(uint32_t worker_count, uint32_t ranks) {
  Roster roster;
  roster.worker_count = worker_count;
  for (uint32_t rank = 0; rank < worker_count; ++rank) {
    if (((ranks >> rank) & 1) != 0) {
      roster.workers.push_back({.worker = WorkerId{rank}, .admitted = 1});
    }
  }
  return roster;
}

// How many members own each micro-batch.
std::vector<int> Owners(const Roster& roster, Clock clock, uint32_t micro_batch_count) {
  std::vector<int> owners(micro_batch_count, 0);
  for (uint32_t rank = 0; rank < roster.worker_count; ++rank) {
    const OwnedMicroBatches owned =
        MicroBatchesOwned(roster, WorkerId{rank}, clock, micro_batch_count);
    for (uint32_t micro_batch = owned.own.begin; micro_batch < owned.own.end; ++micro_batch)
      ++owners[micro_batch];
    for (uint32_t micro_batch : owned.taken_over) ++owners[micro_batch];
  }
  return owners;
}

TEST(Membership, FindsMembersByRank) {
  const Roster roster = RosterOf(5, 0b10110);
  EXPECT_EQ(FindMember(roster, WorkerId{0}), nullptr);
  ASSERT_NE(FindMember(roster, WorkerId{2}), nullptr);
  EXPECT_EQ(FindMember(roster, WorkerId{2})->worker, WorkerId{2});
  EXPECT_EQ(FindMember(roster, WorkerId{3}), nullptr);
  EXPECT_EQ(FindMember(roster, WorkerId{7}), nullptr);
}

TEST(Membership, EveryLeafHasOneOwnerForAllSubsetsOfRanks) {
  for (uint32_t count = 1; count <= 5; ++count) {
    for (uint32_t ranks = 1; ranks < (1u << count); ++ranks) {
      for (uint32_t micro_batch_count = 1; micro_batch_count <= 13; ++micro_batch_count) {
        EXPECT_THAT(Owners(RosterOf(count, ranks), 0, micro_batch_count),
                    testing::Each(testing::Eq(1)))
            << count << " workers, ranks " << ranks << ", " << micro_batch_count
            << " micro-batches";
      }
    }
  }
}

TEST(Membership, AnActiveRankOwnsItsOwnLeavesWhoeverElseIsThere) {
  for (uint32_t ranks = 1; ranks < 16; ++ranks) {
    const Roster roster = RosterOf(4, ranks);
    for (const Member& member : roster.workers) {
      EXPECT_EQ(MicroBatchesOwned(roster, member.worker, 0, 10).own,
                LeavesOfRank(Index(member.worker), 4, 10));
    }
  }
}

TEST(Membership, OrphansAreSharedOutInEqualPartsOfNeighbours) {
  // Of ranks of 4 micro-batches each, 1 and 3 are gone: 4 to 7 and 12 to 15.
  const Roster roster = RosterOf(5, 0b10101);
  EXPECT_THAT(MicroBatchesOwned(roster, WorkerId{0}, 0, 20).taken_over, ElementsAre(4u, 5u));
  EXPECT_THAT(MicroBatchesOwned(roster, WorkerId{2}, 0, 20).taken_over, ElementsAre(6u, 7u, 12u));
  EXPECT_THAT(MicroBatchesOwned(roster, WorkerId{4}, 0, 20).taken_over, ElementsAre(13u, 14u, 15u));
}

TEST(Membership, WhoIsNotAMemberOwnsNothing) {
  const OwnedMicroBatches owned = MicroBatchesOwned(RosterOf(3, 0b101), WorkerId{1}, 0, 9);
  EXPECT_TRUE(owned.own.empty());
  EXPECT_THAT(owned.taken_over, IsEmpty());
}

TEST(Membership, AJoiningMemberIsNotActive) {
  Roster roster = RosterOf(2, 0b11);
  roster.workers.Mutable()[1].joining = true;
  EXPECT_THAT(ActiveWorkers(roster, 100), ElementsAre(WorkerId{0}));
  EXPECT_THAT(MicroBatchesOwned(roster, WorkerId{0}, 100, 4).taken_over, ElementsAre(2u, 3u));
}

TEST(Membership, AMemberIsActiveFromItsStartClockOn) {
  Roster roster = RosterOf(2, 0b11);
  roster.workers.Mutable()[0].start = 7;
  EXPECT_THAT(ActiveWorkers(roster, 6), ElementsAre(WorkerId{1}));
  EXPECT_THAT(ActiveWorkers(roster, 7), ElementsAre(WorkerId{0}, WorkerId{1}));
  EXPECT_THAT(Owners(roster, 6, 6), testing::Each(testing::Eq(1)));
  EXPECT_THAT(Owners(roster, 7, 6), testing::Each(testing::Eq(1)));
}

TEST(Membership, SharesHoldFromTheirClockOn) {
  Roster roster = RosterOf(3, 0b111);
  roster.shares = {{5, {1, 6, 2}}, {8, {0, 0, 9}}};
  EXPECT_EQ(SharesAt(roster, 4), nullptr);
  EXPECT_EQ(SharesAt(roster, 7)->from, 5);
  EXPECT_EQ(MicroBatchesOwned(roster, WorkerId{1}, 4, 9).own, (MicroBatchRange{3, 6}));
  EXPECT_EQ(MicroBatchesOwned(roster, WorkerId{1}, 5, 9).own, (MicroBatchRange{1, 7}));
  EXPECT_TRUE(MicroBatchesOwned(roster, WorkerId{1}, 8, 9).own.empty());
  EXPECT_EQ(MicroBatchesOwned(roster, WorkerId{2}, 100, 9).own, (MicroBatchRange{0, 9}));
}

TEST(Membership, EveryLeafHasOneOwnerUnderRandomShares) {
  const CounterRandom random(1, RandomUse::kTest);
  uint64_t next = 0;
  for (int i = 0; i < 500; ++i) {
    const auto count = static_cast<uint32_t>(1 + random.Below(next++, 6));
    const auto micro_batch_count = static_cast<uint32_t>(1 + random.Below(next++, 40));
    const auto ranks = static_cast<uint32_t>(1 + random.Below(next++, (1u << count) - 1));
    Roster roster = RosterOf(count, ranks);
    for (Clock from = 3; from <= 9; from += 3) {
      Shares shares = {from, std::vector<uint32_t>(count, 0)};
      for (uint32_t micro_batch = 0; micro_batch < micro_batch_count; ++micro_batch) {
        ++shares.micro_batches[random.Below(next++, count)];
      }
      roster.shares.push_back(shares);
    }
    for (Clock clock = 0; clock < 12; ++clock) {
      EXPECT_THAT(Owners(roster, clock, micro_batch_count), testing::Each(testing::Eq(1)));
    }
  }
}

TEST(Membership, SharesOfAnotherJobPutNobodyOutOfRange) {
  Roster roster = RosterOf(2, 0b11);
  roster.shares = {{0, {7, 7}}};
  EXPECT_THAT(Owners(roster, 0, 4), testing::Each(testing::Eq(1)));
}

TEST(Membership, WithNobodyActiveNobodyOwnsAnything) {
  Roster roster = RosterOf(1, 0b1);
  roster.workers.Mutable()[0].start = 3;
  EXPECT_THAT(Owners(roster, 0, 4), testing::Each(testing::Eq(0)));
}

// Worker 5 of three teams of two has seat 1 of team 2.
TEST(Membership, ASeatSpeaksWithItsTeamAndPeersWithThoseOfTheirSeat) {
  const Roster roster = RosterOf(6, 0b111111);
  const TeamShape shape = {.teams = 3, .seats = 2};
  const auto ranks = [](const Roster& of) {
    std::vector<uint32_t> found;
    for (const Member& member : of.workers) found.push_back(Index(member.worker));
    return found;
  };
  EXPECT_THAT(ranks(Reached(roster, WorkerId{5}, shape, /*peers=*/false)),
              testing::ElementsAre(4, 5));
  EXPECT_THAT(ranks(Reached(roster, WorkerId{5}, shape, /*peers=*/true)),
              testing::ElementsAre(1, 3, 4, 5));
  const Roster seat = OnlySeat(roster, 1, shape);
  EXPECT_THAT(ranks(seat), testing::ElementsAre(1, 3, 5));
  EXPECT_EQ(seat.worker_count, 3u);
}

TEST(Membership, ShardsOfAServerAreConsecutive) {
  EXPECT_EQ(ServerOf(ShardId{0}, 3), ServerId{0});
  EXPECT_EQ(ServerOf(ShardId{2}, 3), ServerId{0});
  EXPECT_EQ(ServerOf(ShardId{3}, 3), ServerId{1});
}

}  // namespace
}  // namespace soapstone::wire
