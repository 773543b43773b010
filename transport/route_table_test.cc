#include "transport/route_table.h"

#include <optional>
#include <utility>

#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

using wire::Address;
using wire::Role;

Address Rank(uint32_t i) { return {Role::kWorker, i}; }
Address Temporary(uint32_t i) { return Address::Temporary(Role::kWorker, i); }

TEST(RouteTableTest, TheNewestRouteWins) {
  RouteTable<int> routes;
  EXPECT_EQ(routes.Find(Rank(1)), nullptr);
  EXPECT_TRUE(routes.Learn(Rank(1), 10));
  EXPECT_TRUE(routes.Learn(Rank(1), 11));
  ASSERT_NE(routes.Find(Rank(1)), nullptr);
  EXPECT_EQ(*routes.Find(Rank(1)), 11);
  EXPECT_EQ(routes.size(), 1u);
}

TEST(RouteTableTest, RefusesBeyondItsSizeButUpdates) {
  RouteTable<int> routes({.routes_max = 2, .temporary_max = 1});
  EXPECT_TRUE(routes.Learn(Rank(1), 1));
  EXPECT_TRUE(routes.Learn(Rank(2), 2));
  EXPECT_FALSE(routes.Learn(Rank(3), 3));
  EXPECT_FALSE(routes.Learn(Temporary(1), 3));
  EXPECT_TRUE(routes.Learn(Rank(2), 4));
  EXPECT_EQ(*routes.Find(Rank(2)), 4);
  EXPECT_EQ(routes.Find(Rank(3)), nullptr);
}

TEST(RouteTableTest, StrangersPushOutOnlyOlderStrangers) {
  RouteTable<uint32_t> routes({.routes_max = 100, .temporary_max = 3});
  EXPECT_TRUE(routes.Learn(Rank(1), 1));
  for (uint32_t i = 0; i < 1000; ++i) EXPECT_TRUE(routes.Learn(Temporary(i), i));
  EXPECT_EQ(routes.size(), 4u);
  EXPECT_NE(routes.Find(Rank(1)), nullptr);
  EXPECT_EQ(routes.Find(Temporary(996)), nullptr);
  for (uint32_t i : {997u, 998u, 999u}) ASSERT_NE(routes.Find(Temporary(i)), nullptr);
}

TEST(RouteTableTest, FormerHolderOfARankDoesNotTakeTheRouteBack) {
  RouteTable<int> routes;
  EXPECT_TRUE(routes.Learn(Rank(1), 1, /*epoch=*/2));
  EXPECT_TRUE(routes.Learn(Rank(1), 2, /*epoch=*/4));
  EXPECT_FALSE(routes.Learn(Rank(1), 1, /*epoch=*/2));
  EXPECT_EQ(*routes.Find(Rank(1)), 2);
}

// A rank's route is its former holder's until the next one has spoken.
TEST(RouteTableTest, WhoIsAtARouteIsToldWithTheEpochHeard) {
  RouteTable<int> routes;
  const auto is = [](int wanted) { return [wanted](int route) { return route == wanted; }; };
  EXPECT_TRUE(routes.Learn(Temporary(1), 7));
  EXPECT_TRUE(routes.Learn(Rank(1), 7, /*epoch=*/2));
  EXPECT_EQ(routes.NodeWhere(is(7)), std::pair(Rank(1), Epoch{2}));
  EXPECT_TRUE(routes.Learn(Rank(1), 7, /*epoch=*/1));
  EXPECT_EQ(routes.NodeWhere(is(7)), std::pair(Rank(1), Epoch{2}));
  EXPECT_TRUE(routes.Learn(Rank(1), 8, /*epoch=*/3));
  EXPECT_EQ(routes.NodeWhere(is(8)), std::pair(Rank(1), Epoch{3}));
  EXPECT_EQ(routes.NodeWhere(is(9)), std::nullopt);
}

}  // namespace
}  // namespace soapstone::transport
