// Who keeps which parameters: what the simulator makes of it, told by hand, and what searches try.
#include "scheduler/planner/search/shard_placement.h"

#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/planner/planner_fixture.h"
#include "scheduler/planner/search/coordinate_descent.h"
#include "scheduler/planner/search/mcmc.h"
#include "scheduler/planner/search/proposals.h"
#include "scheduler/planner/simulator/strategy_evaluator.h"

namespace soapstone::planner {
namespace {

using compute::Linear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Keepers = std::vector<uint32_t>;

// Two nodes of one device and one server; two layers that know nothing of each other, one on each
// node: forward 0–16, backward –48; 32 bytes of weights each.
struct LayersApart {
  LayersApart() {
    FakeGraph g(2);
    for (int i = 0; i < 2; ++i) g.Add(Linear{.outputs = 2, .bias = false}, {g.Input({2, 4})});
    graph = g.graph();
    apart = SingleDevice(graph, 0);
    apart.ops[1].devices = {1};
    apart.synchronization = Synchronization::kServers;
  }
  Breakdown Of(const std::vector<Keepers>& servers) const {
    Strategy strategy = apart;
    strategy.servers = servers;
    Simulator simulator(&graph, &machine, &costs);
    CHECK(simulator.SetStrategy(strategy).ok());
    return simulator.Explain();
  }
  // Links 0 to 3, behind two devices.
  static Nanos OnNics(const Breakdown& of) {
    return of.busy_ns[2] + of.busy_ns[3] + of.busy_ns[4] + of.busy_ns[5];
  }
  OpGraph graph;
  Machine machine = FakeMachine({.nodes = 2,
                                 .devices_per_node = 1,
                                 .nic_bytes_per_ns = 0.25,
                                 .servers = 2,
                                 .on_nodes = true});
  FakeCosts costs;
  Strategy apart;
};

// Pushed at 48–80, there at 90, applied –122, pulled –154, there at 164; nothing passes a NIC.
TEST(ShardPlacementTest, ItsNodesServerTakesAGroupWithoutANic) {
  const LayersApart c;
  const Breakdown near = c.Of({{0}, {1}});
  EXPECT_EQ(near.step_ns, 164);
  EXPECT_EQ(LayersApart::OnNics(near), 0);
  EXPECT_EQ(near.sync_bytes, 4 * 32);
}

// Halves. The other node's server gets its own at 48–112 out, 58–122 in, there at 142, applied
// –158; it sends it back at 168–232 out, 178–242 in, and 10 more.
TEST(ShardPlacementTest, EqualSharesPassNics) {
  const LayersApart c;
  const Breakdown equal = c.Of({});
  EXPECT_EQ(equal.step_ns, 252);
  EXPECT_EQ(LayersApart::OnNics(equal), 2 * 4 * 64);
  EXPECT_EQ(equal.sync_bytes, 4 * 32);
  EXPECT_EQ(c.Of({{0, 1}, {0, 1}}).step_ns, 252);
  EXPECT_EQ(c.Of({{}, {}}).step_ns, 252);
}

// Node 1's group passes the NICs whole: in at 58–186, there at 206, applied –238; back out at
// 248–376, in at 258–386, and 10 more.
TEST(ShardPlacementTest, OneServerServesGroupsInTurn) {
  const LayersApart c;
  const Breakdown one = c.Of({{0}, {0}});
  EXPECT_EQ(one.step_ns, 396);
  EXPECT_EQ(LayersApart::OnNics(one), 4 * 128);
}

TEST(ShardPlacementTest, ADescentFindsTheServersOfItsNodes) {
  const LayersApart c;
  const Space space(&c.graph, &c.machine);
  Simulator simulator(&c.graph, &c.machine, &c.costs);
  for (const std::vector<Keepers>& from :
       {std::vector<Keepers>{}, std::vector<Keepers>{{1}, {0}}, std::vector<Keepers>{{0}, {}}}) {
    Strategy strategy = c.apart;
    strategy.servers = from;
    ASSERT_TRUE(simulator.SetStrategy(strategy).ok());
    simulator.StepTime();
    EXPECT_TRUE(DescendByServers(space, {}, true, &simulator));
    EXPECT_EQ(simulator.StepTime(), 164);
    EXPECT_THAT(simulator.strategy().servers, ElementsAre(Keepers{0}, Keepers{1}));
  }
  ASSERT_TRUE(simulator.SetStrategy(c.apart).ok());
  simulator.StepTime();
  DescendByOperator(space, {.servers = false}, &simulator);
  EXPECT_THAT(simulator.strategy().servers, IsEmpty());
}

TEST(ShardPlacementTest, AStrategyIsChecked) {
  const LayersApart c;
  const auto error = [&](const std::vector<Keepers>& servers,
                         Synchronization way = Synchronization::kServers) {
    Strategy strategy = c.apart;
    strategy.servers = servers;
    strategy.synchronization = way;
    return std::string(CheckStrategy(c.graph, c.machine, strategy).message());
  };
  EXPECT_EQ(error({{0}, {0, 1}}), "");
  EXPECT_THAT(error({{0}, {2}}), HasSubstr("servers of linear1: there is no server 2 among 2"));
  EXPECT_THAT(error({{1, 0}, {}}), HasSubstr("servers of linear0: they must ascend, each once"));
  EXPECT_THAT(error({{1, 1}, {}}), HasSubstr("they must ascend, each once"));
  EXPECT_THAT(error({{1}}), HasSubstr("servers of 1 parameter groups"));
  EXPECT_THAT(error({{0}, {1}}, Synchronization::kRing), HasSubstr("do not synchronize"));
  EXPECT_EQ(error({}, Synchronization::kRing), "");
  FakeGraph g(2);
  g.Add(compute::Reshape{.shape = {4}}, {g.Input({2, 4})});
  Strategy strategy = SingleDevice(g.graph(), 0);
  strategy.synchronization = Synchronization::kServers;
  strategy.servers = {{0}};
  EXPECT_THAT(std::string(CheckStrategy(g.graph(), c.machine, strategy).message()),
              HasSubstr("it has no parameters"));
}

TEST(ShardPlacementTest, AnotherWayForgetsServers) {
  const LayersApart c;
  Strategy strategy = c.apart;
  strategy.servers = {{0}, {1}};
  SetSynchronization(Synchronization::kServers, &strategy);
  EXPECT_EQ(strategy.servers.size(), 2u);
  StrategyEvaluator evaluator(&c.graph, &c.machine, &c.costs);
  Strategy best = strategy;
  // Each device applies its own, 96.
  EXPECT_EQ(evaluator.PriceBest(&best)->step_ns, 48 + 96);
  EXPECT_THAT(best.servers, IsEmpty());
  EXPECT_EQ(evaluator.Look(strategy)->step_ns, 164);
  EXPECT_EQ(evaluator.Look(c.apart)->step_ns, 252);
  SetSynchronization(Synchronization::kRing, &strategy);
  EXPECT_THAT(strategy.servers, IsEmpty());
}

// Three nodes of two devices, two of them with a server; four layers, the first used twice.
struct SharedLayers {
  SharedLayers() {
    FakeGraph g(12);
    FakeTensor x = g.Add(Linear{.outputs = 24}, {g.Input({12, 24})}, 1);
    x = g.Add(Linear{.outputs = 24}, {x}, 1);
    x = g.Add(Linear{.outputs = 40}, {x});
    x = g.Add(Linear{.outputs = 8}, {x});
    x = g.Add(Linear{.outputs = 12}, {x});
    g.Add(compute::SoftmaxCrossEntropy{}, {x, g.Input({12}, compute::DataType::kInt32)});
    graph = g.graph();
    data = DataParallel(graph, 6);
    data.synchronization = Synchronization::kServers;
  }
  OpGraph graph;
  Machine machine = FakeMachine({.nodes = 3, .servers = 2, .on_nodes = true});
  FakeCosts costs = FakeCosts(0.05);
  Strategy data;
};

TEST(ShardPlacementTest, KnowsTheServersOfAGroupsNodes) {
  const SharedLayers c;
  const Space space(&c.graph, &c.machine);
  const ShardPlacement placement(&space);
  Simulator now(&c.graph, &c.machine, &c.costs);
  Strategy strategy = c.data;
  const uint32_t group = c.graph.ops[1].group;
  const auto one = [](uint32_t device) {
    return OpConfig{.degrees = {1, 1, 1}, .devices = {device}};
  };
  strategy.ops[0] = one(2);
  strategy.ops[1] = one(3);
  ASSERT_TRUE(now.SetStrategy(strategy).ok());
  EXPECT_THAT(placement.groups(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(placement.OfItsNodes(now, group), ElementsAre(1));
  const Change changes[] = {{1, one(5)}, {0, one(0)}};
  // Node 2 has no server; of all nodes' servers none is named.
  EXPECT_THAT(placement.OfItsNodes(now, group, changes), ElementsAre(0));
  EXPECT_THAT(placement.OfItsNodes(now, group, {changes, 1}), ElementsAre(1));
  EXPECT_THAT(placement.OfItsNodes(now, group, {changes + 1, 1}), IsEmpty());
  EXPECT_THAT(placement.OfItsNodes(now, 2), IsEmpty());
}

// Bytes on six devices: 24·24 + 24, 24·40 + 40, 40·8 + 8, 8·12 + 12 floats: 14,400, 24,000, 7,872
// and 2,592. The largest to 0, the next to 1, the third and the last there too.
TEST(ShardPlacementTest, SpreadsGroupsByBytes) {
  const SharedLayers c;
  const Space space(&c.graph, &c.machine);
  const ShardPlacement placement(&space);
  Simulator now(&c.graph, &c.machine, &c.costs);
  ASSERT_TRUE(now.SetStrategy(c.data).ok());
  EXPECT_EQ(now.HeldBytes(0), 14'400);
  const auto home_of = [&](absl::Span<const uint32_t> groups, uint32_t group) {
    for (const ServerChange& change : placement.Spread(now, groups)) {
      if (change.group == group) return static_cast<int>(change.servers.at(0));
    }
    return -1;
  };
  const Keepers all = {0, 1, 2, 3};
  EXPECT_EQ(home_of(all, 1), 0);
  EXPECT_EQ(home_of(all, 0), 1);
  EXPECT_EQ(home_of(all, 2), 1);
  EXPECT_EQ(home_of(all, 3), 1);
  // Beside the others' equal shares the first server is as good as the second.
  EXPECT_EQ(home_of(Keepers{0}, 0), 0);
  EXPECT_EQ(home_of(Keepers{0}, 1), -1);
  Strategy strategy = c.data;
  strategy.servers = {{}, {0}, {}, {}, {}};
  ASSERT_TRUE(now.SetStrategy(strategy).ok());
  EXPECT_EQ(home_of(Keepers{0}, 0), 1);
}

TEST(ShardPlacementTest, ADescentIsNeverWorseThanAllServers) {
  const SharedLayers c;
  const Space space(&c.graph, &c.machine);
  const ShardPlacement placement(&space);
  Simulator simulator(&c.graph, &c.machine, &c.costs);
  RandomSource random(5, 0);
  int better = 0;
  for (int i = 0; i < 60; ++i) {
    Strategy strategy = c.data;
    for (uint32_t op = 0; op < c.graph.ops.size(); ++op) {
      space.DrawBlock(op, &random, &strategy.ops[op]);
    }
    ASSERT_TRUE(simulator.SetStrategy(strategy).ok());
    const Nanos equal = simulator.StepTime();
    strategy.servers.resize(c.graph.groups.size());
    for (const uint32_t group : placement.groups()) {
      if (random.Below(2) == 0) strategy.servers[group] = {random.Below(2)};
    }
    ASSERT_TRUE(simulator.SetStrategy(strategy).ok());
    const Nanos before = simulator.StepTime();
    ASSERT_TRUE(DescendByServers(space, {}, true, &simulator));
    EXPECT_LE(simulator.StepTime(), std::min(equal, before)) << i;
    EXPECT_EQ(simulator.StepTime(), simulator.Simulate()) << i;
    better += simulator.StepTime() < equal ? 1 : 0;
  }
  EXPECT_GT(better, 10);
}

TEST(ShardPlacementTest, AWalksResultIsNotImprovedByOtherServers) {
  const SharedLayers c;
  const Space space(&c.graph, &c.machine);
  const auto result = SearchByWalk(space, c.costs, {&c.data, 1}, {.proposals = 1500});
  ASSERT_TRUE(result.ok());
  ASSERT_TRUE(result->locally_optimal);
  ASSERT_EQ(result->strategy.synchronization, Synchronization::kServers);
  Simulator simulator(&c.graph, &c.machine, &c.costs);
  for (const std::vector<Keepers>& all :
       {std::vector<Keepers>{{}, {0}, {1}}, std::vector<Keepers>{{0}}, std::vector<Keepers>{{1}}}) {
    for (uint32_t group = 0; group < 4; ++group) {
      for (const Keepers& servers : all) {
        Strategy other = result->strategy;
        other.servers.resize(c.graph.groups.size());
        other.servers[group] = servers;
        ASSERT_TRUE(simulator.SetStrategy(other).ok());
        EXPECT_GE(simulator.StepTime(), result->found.step_ns) << group;
      }
    }
  }
  Strategy equal = result->strategy;
  equal.servers.clear();
  ASSERT_TRUE(simulator.SetStrategy(equal).ok());
  EXPECT_GE(simulator.StepTime(), result->found.step_ns);
}

// Where no servers synchronize, or there is one, moves are drawn as on a machine without any.
TEST(ShardPlacementTest, WalksWithoutAChoiceDrawWhatTheyDrew) {
  const SharedLayers c;
  const auto digest = [&](const FakeMachineSpec& spec, Synchronization way) {
    const Machine machine = FakeMachine(spec);
    const Space space(&c.graph, &machine);
    Strategy seed = c.data;
    SetSynchronization(way, &seed);
    const auto result = SearchByWalk(space, c.costs, {&seed, 1}, {.proposals = 400, .chains = 1});
    EXPECT_THAT(result->strategy.servers, IsEmpty());
    return result->chain_digest;
  };
  const uint64_t plain = digest({.nodes = 3}, Synchronization::kOwner);
  EXPECT_EQ(digest({.nodes = 3, .servers = 2}, Synchronization::kOwner), plain);
  // The draws of one server: those of any way.
  const auto draws = [&](uint32_t servers, Synchronization way) {
    const Machine machine = FakeMachine({.nodes = 3, .servers = servers});
    const Space space(&c.graph, &machine);
    Simulator now(&c.graph, &machine, &c.costs);
    Strategy seed = c.data;
    SetSynchronization(way, &seed);
    CHECK(now.SetStrategy(seed).ok());
    ProposalGenerator moves(&space);
    RandomSource random(1, 1);
    std::vector<OpConfig> drawn;
    int placed = 0;
    for (int i = 0; i < 100; ++i) {
      for (const Change& change : moves.Draw(now, &random)) drawn.push_back(change.config);
      placed += moves.servers().empty() ? 0 : 1;
    }
    EXPECT_EQ(placed > 0, servers > 1 && way == Synchronization::kServers);
    return drawn;
  };
  const std::vector<OpConfig> by_owner = draws(2, Synchronization::kOwner);
  EXPECT_EQ(draws(1, Synchronization::kServers), by_owner);
  EXPECT_EQ(draws(2, Synchronization::kRing), by_owner);
  EXPECT_NE(draws(2, Synchronization::kServers), by_owner);
}

}  // namespace
}  // namespace soapstone::planner
