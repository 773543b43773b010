#include "scheduler/checkpoints/leaving_nodes.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::scheduler {
namespace {

using testing::ElementsAre;
using testing::Optional;
using wire::Address;

Address Worker(uint32_t rank) { return Address::Of(WorkerId{rank}); }
Address Server(uint32_t rank) { return Address::Of(ServerId{rank}); }

wire::Roster RosterOf(const std::vector<uint32_t>& workers, uint32_t servers) {
  wire::Roster roster;
  for (const uint32_t w : workers) roster.workers.push_back({.worker = WorkerId{w}});
  for (uint32_t s = 0; s < servers; ++s) roster.servers.push_back({.server = ServerId{s}});
  return roster;
}

TEST(LeavingNodesTest, AWorkerLeavesByItselfAndAServerDoesNot) {
  LeavingNodes leaving({});
  const wire::Roster roster = RosterOf({0, 1, 2}, 2);
  EXPECT_EQ(leaving.Take(Worker(1), roster), std::nullopt);
  EXPECT_THAT(leaving.workers(), ElementsAre());
  EXPECT_THAT(leaving.Take(Server(1), roster), Optional(std::string("server 1 leaves")));
  EXPECT_THAT(leaving.workers(), ElementsAre(1));
}

TEST(LeavingNodesTest, AllWorkersAreTheJob) {
  LeavingNodes leaving({});
  EXPECT_EQ(leaving.Take(Worker(2), RosterOf({0, 1, 2}, 1)), std::nullopt);
  EXPECT_EQ(leaving.Take(Worker(2), RosterOf({0, 1, 2}, 1)), std::nullopt);  // twice is once
  EXPECT_EQ(leaving.Take(Worker(0), RosterOf({0, 1, 2}, 1)), std::nullopt);
  EXPECT_THAT(leaving.Take(Worker(1), RosterOf({0, 1, 2}, 1)),
              Optional(std::string("all workers leave")));
  LeavingNodes others({});  // one was lost, or has left
  EXPECT_EQ(others.Take(Worker(2), RosterOf({0, 1, 2}, 1)), std::nullopt);
  EXPECT_THAT(others.Take(Worker(0), RosterOf({0, 2}, 1)),
              Optional(std::string("all workers leave")));
}

TEST(LeavingNodesTest, ATeamIsNeededWhereItIsTheLast) {
  LeavingNodes leaving({.team_seats = 2});
  EXPECT_EQ(leaving.Take(Worker(3), RosterOf({0, 1, 2, 3}, 1)), std::nullopt);
  EXPECT_THAT(leaving.workers(), ElementsAre());
  EXPECT_THAT(leaving.Take(Worker(0), RosterOf({0, 1}, 1)),
              Optional(std::string("worker 0 leaves, of the only team")));
  EXPECT_THAT(leaving.workers(), ElementsAre(0));  // 3 has gone with its team
}

TEST(LeavingNodesTest, WhoKeepsParametersIsNeeded) {
  LeavingNodes leaving({.team_seats = 2, .beside_workers = true});
  const wire::Roster roster = RosterOf({0, 1, 2, 3}, 4);
  EXPECT_THAT(leaving.Take(Server(3), roster),
              Optional(std::string("worker 3 leaves, with its parameters")));
  EXPECT_TRUE(leaving.Take(Worker(3), roster).has_value());
  EXPECT_THAT(leaving.workers(), ElementsAre(3));
}

TEST(LeavingNodesTest, WhoIsNoMemberIsNotHeard) {
  LeavingNodes leaving({.team_seats = 3});
  const wire::Roster roster = RosterOf({0, 2}, 1);
  EXPECT_EQ(leaving.Take(Worker(1), roster), std::nullopt);
  EXPECT_EQ(leaving.Take(Server(1), roster), std::nullopt);
  EXPECT_EQ(leaving.Take(Address::Of(ShardId{0}), roster), std::nullopt);
  EXPECT_THAT(leaving.workers(), ElementsAre());
}

}  // namespace
}  // namespace soapstone::scheduler
