#include "scheduler/checkpoints/leaving_nodes.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::scheduler {
namespace {

using testing::ElementsAre;
using wire::Address;

constexpr Nanos kSoon = LeavingNodes::kWait / 2;
constexpr Nanos kLater = 2 * LeavingNodes::kWait;

Address Worker(uint32_t rank) { return Address::Of(WorkerId{rank}); }
Address Server(uint32_t rank) { return Address::Of(ServerId{rank}); }

wire::Roster RosterOf(const std::vector<uint32_t>& workers, uint32_t servers = 1,
                      Epoch admitted = 1) {
  wire::Roster roster;
  for (const uint32_t w : workers) {
    roster.workers.push_back({.worker = WorkerId{w}, .admitted = admitted});
  }
  for (uint32_t s = 0; s < servers; ++s) roster.servers.push_back({.server = ServerId{s}});
  return roster;
}

std::string StopOf(LeavingNodes* leaving, const wire::Roster& roster, Nanos now = 0) {
  return leaving->Look(now, roster, {}).stop;
}

TEST(LeavingNodesTest, AWorkerMayLeaveAfterAWhileAndAServerMayNot) {
  LeavingNodes leaving({});
  const wire::Roster roster = RosterOf({0, 1, 2}, 2);
  leaving.Ask(0, Worker(1));
  EXPECT_EQ(leaving.Look(kSoon, roster, {}), LeavingNodes::Verdict());
  EXPECT_THAT(leaving.Look(kLater, roster, {}).may_leave, ElementsAre(Worker(1)));
  EXPECT_EQ(leaving.Look(kLater, roster, {}), LeavingNodes::Verdict());  // told once
  EXPECT_THAT(leaving.workers(), ElementsAre());
  leaving.Ask(kLater, Server(1));
  EXPECT_EQ(StopOf(&leaving, roster, kLater), "server 1 leaves");
  EXPECT_THAT(leaving.workers(), ElementsAre(1));
}

TEST(LeavingNodesTest, AllWorkersAreTheJob) {
  LeavingNodes leaving({});
  for (const uint32_t w : {2, 2, 0}) leaving.Ask(0, Worker(w));  // twice is once
  EXPECT_EQ(StopOf(&leaving, RosterOf({0, 1, 2})), "");
  leaving.Ask(0, Worker(1));
  EXPECT_EQ(StopOf(&leaving, RosterOf({0, 1, 2})), "all workers leave");
}

// One is dead, and not counted out yet: the others are not to rely on it.
TEST(LeavingNodesTest, WhoIsSilentIsWaitedFor) {
  LeavingNodes leaving({});
  leaving.Ask(0, Worker(0));
  leaving.Ask(0, Worker(1));
  const auto silent = [&](const std::vector<Address>& nodes) {
    return leaving.Look(kLater, RosterOf({0, 1, 2}), nodes);
  };
  EXPECT_EQ(silent({Worker(2)}), LeavingNodes::Verdict());
  EXPECT_EQ(StopOf(&leaving, RosterOf({0, 1}), kLater), "all workers leave");  // it was lost
  LeavingNodes others({});
  others.Ask(0, Worker(0));
  EXPECT_THAT(others.Look(kLater, RosterOf({0, 1, 2}), {Worker(2)}).may_leave,
              ElementsAre(Worker(0)));  // 1 goes on
}

TEST(LeavingNodesTest, WhoHasTheRankNextHasNotAsked) {
  LeavingNodes leaving({});
  leaving.Ask(0, Worker(1));
  EXPECT_THAT(leaving.Look(kLater, RosterOf({0, 1}), {}).may_leave, ElementsAre(Worker(1)));
  leaving.Ask(kLater, Worker(0));
  EXPECT_EQ(StopOf(&leaving, RosterOf({0, 1}, 1, /*admitted=*/2), kLater), "");
}

TEST(LeavingNodesTest, ATeamGoesWithAnyOfItsSeats) {
  LeavingNodes leaving({.team_seats = 2});
  leaving.Ask(0, Worker(3));
  EXPECT_EQ(StopOf(&leaving, RosterOf({0, 1, 2, 3})), "");
  EXPECT_EQ(leaving.Look(kLater, RosterOf({0, 1, 2, 3}), {Worker(1)}), LeavingNodes::Verdict());
  leaving.Ask(0, Worker(0));  // of the other team
  EXPECT_EQ(StopOf(&leaving, RosterOf({0, 1, 2, 3})), "worker 3 leaves, of the last team");
  EXPECT_THAT(leaving.workers(), ElementsAre(0, 3));
  LeavingNodes last({.team_seats = 2});
  last.Ask(0, Worker(0));
  EXPECT_EQ(StopOf(&last, RosterOf({0, 1})), "worker 0 leaves, of the only team");
}

TEST(LeavingNodesTest, WhoKeepsParametersIsNeeded) {
  LeavingNodes leaving({.team_seats = 2, .beside_workers = true});
  leaving.Ask(0, Server(3));
  EXPECT_EQ(StopOf(&leaving, RosterOf({0, 1, 2, 3}, 4)), "worker 3 leaves, with its parameters");
  EXPECT_THAT(leaving.workers(), ElementsAre(3));
}

TEST(LeavingNodesTest, WhoIsNoMemberIsNotHeard) {
  LeavingNodes leaving({.team_seats = 3});
  for (const Address node : {Worker(1), Server(1), Address::Of(ShardId{0})}) leaving.Ask(0, node);
  EXPECT_EQ(leaving.Look(kLater, RosterOf({0, 2}), {}), LeavingNodes::Verdict());
  EXPECT_THAT(leaving.workers(), ElementsAre());
}

}  // namespace
}  // namespace soapstone::scheduler
