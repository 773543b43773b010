#include "wire/membership/chains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/membership/membership.h"

namespace soapstone::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<uint32_t> ServersOf(const Chain& chain) {
  std::vector<uint32_t> servers;
  for (const Link& link : chain.links) servers.push_back(Index(link.server));
  return servers;
}

TEST(ChainsTest, EachServerHasAsManyReplicasAsAnother) {
  const ShardPlaces places = {.servers = 3, .shards_per_server = 2, .replicas = 2};
  const SharedList<Chain> chains = FirstChains(places, 1);
  ASSERT_EQ(chains.size(), 6u);
  EXPECT_THAT(ServersOf(chains[0]), ElementsAre(0, 1));
  EXPECT_THAT(ServersOf(chains[3]), ElementsAre(1, 2));
  EXPECT_THAT(ServersOf(chains[5]), ElementsAre(2, 0));
  for (uint32_t server = 0; server < 3; ++server) {
    const std::vector<ShardId> shards = ShardsOn(ServerId{server}, places);
    EXPECT_EQ(shards.size(), 4u);
    for (uint32_t k = 0; k < 6; ++k) {
      const bool has = std::ranges::find(shards, ShardId{k}) != shards.end();
      const std::vector<uint32_t> chain = ServersOf(chains[k]);
      EXPECT_EQ(has, std::ranges::find(chain, server) != chain.end()) << k;
      EXPECT_EQ(has, places.MayBeOn(ServerId{server}, ShardId{k}));
    }
  }
  EXPECT_FALSE(places.MayBeOn(ServerId{7}, ShardId{0}));
  EXPECT_FALSE(places.MayBeOn(ServerId{0}, ShardId{77}));
}

TEST(ChainsTest, OfOneReplicaThereAreNone) {
  const ShardPlaces places = {.servers = 3, .shards_per_server = 2};
  EXPECT_TRUE(FirstChains(places, 1).empty());
  EXPECT_THAT(ShardsOn(ServerId{2}, places), ElementsAre(ShardId{4}, ShardId{5}));
  EXPECT_FALSE(places.MayBeOn(ServerId{0}, ShardId{2}));
  EXPECT_TRUE(ShardPlaces().MayBeOn(ServerId{0}, ShardId{2}));
}

TEST(ChainsTest, WhoStandsBehindALostOneHasANewLink) {
  SharedList<Chain> chains = FirstChains({.servers = 3, .shards_per_server = 1, .replicas = 3}, 1);
  RemoveServer(ServerId{1}, 4, &chains);
  EXPECT_THAT(chains[0].links, ElementsAre(Link{ServerId{0}, 1}, Link{ServerId{2}, 4}));
  EXPECT_THAT(chains[1].links, ElementsAre(Link{ServerId{2}, 4}, Link{ServerId{0}, 1}));
  EXPECT_THAT(chains[2].links, ElementsAre(Link{ServerId{2}, 1}, Link{ServerId{0}, 1}));
  EXPECT_THAT(OnlyOn(chains, ServerId{0}), IsEmpty());
  RemoveServer(ServerId{2}, 6, &chains);
  EXPECT_THAT(OnlyOn(chains, ServerId{0}), ElementsAre(ShardId{0}, ShardId{1}, ShardId{2}));
  Roster roster;
  roster.chains = chains;
  EXPECT_EQ(HeadOf(roster, ShardId{1}), ServerId{0});
  EXPECT_EQ(HeadOf(Roster{.shards_per_server = 2}, ShardId{5}), ServerId{2});
}

}  // namespace
}  // namespace soapstone::wire
