#include "scheduler/planner/blocks/block_cache.h"

#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/planner/simulator_fixture.h"

namespace soapstone::planner {
namespace {

TEST(BlockCacheTest, AClassHasOneStateForAConfiguration) {
  SimulatorParts p(ZooGraph("transformer_lm:tiny,layers=3"));
  std::vector<std::set<const OpState*>> of_class(p.connections.classes().ops);
  for (uint32_t op = 0; op < p.connections.ops(); ++op) {
    const OpConfig config = DataParallelConfig(p.graph.ops[op], 2);
    const OpState* const state = p.cache.FindOp(op, config);
    EXPECT_EQ(state, p.cache.FindOp(op, config));
    EXPECT_EQ(state->config, config);
    of_class[p.connections.classes().of_op[op]].insert(state);
    // Its own id within the class.
    const OpState* const other = p.cache.FindOp(op, SingleDevice(p.graph, 1).ops[op]);
    EXPECT_NE(other->id, state->id);
  }
  for (const auto& states : of_class) EXPECT_EQ(states.size(), 1u);
}

TEST(BlockCacheTest, AClassHasOneBlockBetweenEqualStates) {
  SimulatorParts p(ZooGraph("transformer_lm:tiny,layers=3"));
  p.Set(DataParallel(p.graph, 4));
  std::set<const EdgeBlock*> edges;
  std::set<const SyncBlock*> syncs;
  for (uint32_t e = 0; e < p.connections.edges(); ++e) edges.insert(&p.now.edge(e));
  for (uint32_t g = 0; g < p.connections.groups(); ++g) syncs.insert(&p.now.sync(g));
  EXPECT_EQ(edges.size(), p.connections.edge_classes());
  EXPECT_EQ(syncs.size(), p.connections.classes().groups);
}

// By the same servers too.
TEST(BlockCacheTest, OtherServersHaveAnotherBlock) {
  SimulatorParts p(ZooGraph("lenet5"));
  Strategy strategy = DataParallel(p.graph, 4);
  strategy.synchronization = Synchronization::kServers;
  p.Set(strategy);
  const uint32_t group = p.graph.ops[0].group;
  const SyncBlock* const all = &p.now.sync(group);
  const SyncBlock* const one = p.cache.FindSync(group, p.now.ops(), Synchronization::kServers, {1});
  EXPECT_NE(one, all);
  EXPECT_EQ(one, p.cache.FindSync(group, p.now.ops(), Synchronization::kServers, {1}));
  EXPECT_NE(one, p.cache.FindSync(group, p.now.ops(), Synchronization::kOwner, {1}));
}

struct Seen {
  int64_t bytes;
  size_t slots;
  std::vector<uint32_t> waits;
  friend bool operator==(const Seen&, const Seen&) = default;
};

std::vector<Seen> BlocksOf(const SimulatorParts& p) {
  std::vector<Seen> seen;
  for (uint32_t e = 0; e < p.connections.edges(); ++e) {
    const EdgeBlock& block = p.now.edge(e);
    seen.push_back({block.bytes,
                    block.forward.slots() + block.backward.slots(),
                    {block.forward_waits.begin(), block.forward_waits.end()}});
  }
  for (uint32_t g = 0; g < p.connections.groups(); ++g) {
    const SyncBlock& block = p.now.sync(g);
    seen.push_back({block.bytes, block.tasks.slots(), {}});
    for (const CommTask& task : block.tasks.tasks) seen.back().waits.push_back(task.waits);
  }
  return seen;
}

// Memory of what was forgotten is used for other blocks, of which nothing may be left.
TEST(BlockCacheTest, WhatIsFoundAnewIsEqual) {
  SimulatorParts p(ZooGraph("gnmt:tiny"));
  RandomSource random(3, 0);
  for (int turn = 0; turn < 8; ++turn) {
    const Strategy strategy = p.DrawStrategy(&random);
    p.Set(strategy);
    const std::vector<Seen> before = BlocksOf(p);
    const size_t words = p.cache.words();
    EXPECT_GT(words, 0u);
    for (int other = 0; other < 3; ++other) p.Set(p.DrawStrategy(&random));
    EXPECT_GT(p.cache.words(), words);
    p.cache.Clear();
    EXPECT_EQ(p.cache.words(), 0u);
    p.Set(strategy);
    ASSERT_EQ(BlocksOf(p), before) << turn;
  }
}

TEST(BlockCacheTest, IsFullBeyondItsWords) {
  SimulatorParts p(ZooGraph("lenet5"), {}, {.words_max = 1});
  EXPECT_FALSE(p.cache.full());
  p.cache.FindOp(0, DataParallelConfig(p.graph.ops[0], 2));
  EXPECT_TRUE(p.cache.full());
}

}  // namespace
}  // namespace soapstone::planner
