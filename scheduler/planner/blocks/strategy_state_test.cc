#include "scheduler/planner/blocks/strategy_state.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/planner/simulator_fixture.h"

namespace soapstone::planner {
namespace {

// Invariant 1 by addresses: two states over one cache.
void ExpectEqual(const SimulatorParts& p, const StrategyState& a, const StrategyState& b) {
  EXPECT_EQ(a.strategy(), b.strategy());
  EXPECT_EQ(a.hash(), b.hash());
  for (uint32_t op = 0; op < p.connections.ops(); ++op) EXPECT_EQ(&a.op(op), &b.op(op)) << op;
  for (uint32_t e = 0; e < p.connections.edges(); ++e) EXPECT_EQ(&a.edge(e), &b.edge(e)) << e;
  for (uint32_t g = 0; g < p.connections.groups(); ++g) EXPECT_EQ(&a.sync(g), &b.sync(g)) << g;
}

TEST(StrategyStateTest, StepByStepIsAsAtOnce) {
  SimulatorParts p(ZooGraph("lenet5"));
  StrategyState fresh(&p.connections, &p.cache);
  RandomSource random(5, 0);
  Strategy strategy = DataParallel(p.graph, 4);
  strategy.synchronization = Synchronization::kServers;
  p.now.Set(strategy);
  for (int i = 0; i < 50; ++i) {
    const Change change = p.DrawChange(&random);
    p.now.SetOp(change.op, change.config);
    const uint32_t group = p.connections.group_of(change.op);
    if (group != ConnectionGraph::kNoGroup) p.now.SetServers(group, {random.Below(2)});
    for (uint32_t e = 0; e < p.connections.edges(); ++e) p.now.UpdateEdge(e);
    for (uint32_t g = 0; g < p.connections.groups(); ++g) p.now.UpdateSync(g);
    fresh.Set(p.now.strategy());
    ExpectEqual(p, p.now, fresh);
  }
}

TEST(StrategyStateTest, WhatASetterGivesBackRestores) {
  SimulatorParts p(ZooGraph("lenet5"));
  StrategyState before(&p.connections, &p.cache);
  Strategy strategy = DataParallel(p.graph, 4);
  strategy.synchronization = Synchronization::kServers;
  p.now.Set(strategy);
  before.Set(strategy);
  const uint32_t group = p.connections.group_of(0);
  const uint32_t edge = p.connections.out().of(0)[0].edge;
  const StrategyHash hash = p.now.hash();
  const OpState* const op_was = p.now.SetOp(0, SingleDevice(p.graph, 1).ops[0]);
  std::vector<uint32_t> servers_were = p.now.SetServers(group, {1});
  const EdgeBlock* const edge_was = p.now.UpdateEdge(edge);
  const SyncBlock* const sync_was = p.now.UpdateSync(group);
  EXPECT_NE(p.now.hash(), hash);
  EXPECT_NE(&p.now.edge(edge), edge_was);
  p.now.RestoreOp(0, op_was);
  p.now.RestoreServers(group, std::move(servers_were));
  p.now.RestoreEdge(edge, edge_was);
  p.now.RestoreSync(group, sync_was);
  p.now.RestoreHash(hash);
  ExpectEqual(p, p.now, before);
}

TEST(StrategyStateTest, HashesTellStrategiesApart) {
  SimulatorParts p(ZooGraph("lenet5"));
  Strategy strategy = DataParallel(p.graph, 4);
  strategy.synchronization = Synchronization::kServers;
  p.now.Set(strategy);
  const StrategyHash hash = p.now.hash();
  const uint32_t group = p.connections.group_of(0);
  p.now.SetServers(group, {0});
  const StrategyHash first = p.now.hash();
  p.now.SetServers(group, {1});
  EXPECT_NE(first, hash);
  EXPECT_NE(p.now.hash(), first);
  p.now.SetServers(group, {});
  EXPECT_EQ(p.now.hash(), hash);
}

TEST(StrategyStateTest, AFullCacheIsEmptiedAndTheStrategyStays) {
  SimulatorParts p(ZooGraph("lenet5"), {.servers = 1}, {.words_max = 1});
  RandomSource random(1, 0);
  Strategy strategy;
  while (!p.cache.full()) {
    strategy = p.DrawStrategy(&random);
    p.now.Set(strategy);
  }
  const size_t words = p.cache.words();
  EXPECT_TRUE(p.now.RefreshFullCache());
  EXPECT_LT(p.cache.words(), words);
  EXPECT_EQ(p.now.strategy(), strategy);
  StrategyState fresh(&p.connections, &p.cache);
  fresh.Set(strategy);
  ExpectEqual(p, p.now, fresh);
  EXPECT_FALSE(p.now.RefreshFullCache());
}

// Else each proposal would find all of it anew.
TEST(StrategyStateTest, AStrategyLargerThanTheCacheIsFoundOnce) {
  SimulatorParts p(ZooGraph("lenet5"), {.servers = 1}, {.words_max = 1});
  p.now.Set(DataParallel(p.graph, 2));
  const OpState* const state = &p.now.op(0);
  EXPECT_FALSE(p.now.RefreshFullCache());
  EXPECT_EQ(&p.now.op(0), state);
}

}  // namespace
}  // namespace soapstone::planner
