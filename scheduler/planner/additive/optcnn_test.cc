#include "scheduler/planner/additive/optcnn.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "scheduler/planner/additive/additive_cost.h"
#include "scheduler/planner/planner_fixture.h"

namespace soapstone::planner {
namespace {

using compute::Linear;

// Every choice of configurations.
Nanos LeastOfAll(const AdditiveCost& cost) {
  std::vector<uint32_t> choice(cost.configs.size(), 0);
  Nanos best = CostOf(cost.problem, choice);
  while (true) {
    size_t i = 0;
    while (i < choice.size() && ++choice[i] == cost.configs[i].size()) choice[i++] = 0;
    if (i == choice.size()) return best;
    best = std::min(best, CostOf(cost.problem, choice));
  }
}

void ExpectDynamicProgramIsExact(const OpGraph& graph, const Machine& machine) {
  const FakeCosts costs(0.01);
  const Space space(&graph, &machine);
  const AdditiveCost cost = MakeAdditiveCost(space, costs);
  ASSERT_TRUE(cost.complete);
  for (uint32_t op = 0; op < graph.ops.size(); ++op) {
    EXPECT_EQ(cost.configs[op], space.Configs(op));
  }
  const PairwiseMinimum found = Minimize(cost.problem);
  EXPECT_TRUE(found.exact);
  EXPECT_EQ(found.cost, CostOf(cost.problem, found.choice));
  EXPECT_EQ(found.cost, LeastOfAll(cost));
}

TEST(OptCnnTest, EqualsBruteForceOnRandomChains) {
  const Machine machine = FakeMachine({});
  for (uint64_t seed = 0; seed < 8; ++seed) {
    RandomSource random(seed, 0);
    FakeGraph g(2 * (1 + random.Below(8)));
    FakeTensor x = g.Input({g.graph().batch, 4 + random.Below(60)});
    for (int layer = 0; layer < 4; ++layer) {
      x = g.Add(Linear{.outputs = 2 + random.Below(90), .bias = random.Below(2) == 0}, {x});
    }
    ExpectDynamicProgramIsExact(g.graph(), machine);
  }
}

TEST(OptCnnTest, EqualsBruteForceOnAForkAndJoin) {
  FakeGraph g(8);
  const FakeTensor x = g.Add(Linear{.outputs = 16}, {g.Input({8, 32})});
  const FakeTensor left = g.Add(Linear{.outputs = 24}, {x});
  const FakeTensor right = g.Add(Linear{.outputs = 24}, {x});
  const FakeTensor sum = g.Add(compute::Add{}, {left, right});
  g.Add(Linear{.outputs = 4}, {sum});
  ExpectDynamicProgramIsExact(g.graph(), FakeMachine({}));
}

// A chain of one big layer: what its strategy costs, by hand.
TEST(OptCnnTest, TheCostOfOneLayerIsItsComputeAndItsRing) {
  FakeGraph g(8);
  g.Add(Linear{.outputs = 16, .bias = false}, {g.Input({8, 32})});
  const Machine machine = FakeMachine({.bytes_per_ns = 1, .latency_ns = 10});
  const FakeCosts costs;
  const Space space(&g.graph(), &machine);
  const AdditiveCost cost = MakeAdditiveCost(space, costs);
  const auto of = [&](const std::vector<uint32_t>& degrees) {
    for (size_t i = 0; i < cost.configs[0].size(); ++i) {
      if (cost.configs[0][i].degrees == degrees) return cost.problem.nodes[0][i];
    }
    return Nanos{-1};
  };
  // 8·16·32 places forward and twice back; 2,048 bytes of weights are read twice and written once
  // at 1 byte a nanosecond.
  EXPECT_EQ(of({1, 1, 1}), 3 * 4096 + 3 * 2048);
  // Half of each; a ring of two sends 2·(1/2) of the weights, with a nanosecond for rounding, in
  // two rounds.
  EXPECT_EQ(of({2, 1, 1}), 3 * 2048 + 2048 + 1 + 2 * 10 + 3 * 2048);
  // Half of the weights each, no ring.
  EXPECT_EQ(of({1, 2, 1}), 3 * 2048 + 3 * 1024);
}

TEST(OptCnnTest, TooManyConfigurationsArePruned) {
  FakeGraph g(64);
  FakeTensor x = g.Add(Linear{.outputs = 64}, {g.Input({64, 64})});
  g.Add(Linear{.outputs = 64}, {x});
  const Machine machine = FakeMachine({.nodes = 4, .devices_per_node = 4});
  const FakeCosts costs;
  const Space space(&g.graph(), &machine);
  const AdditiveCost cost = MakeAdditiveCost(space, costs, {.configs_max = 20});
  ASSERT_GT(space.Configs(0).size(), 100u);
  for (uint32_t op = 0; op < 2; ++op) {
    const std::vector<OpConfig>& kept = cost.configs[op];
    EXPECT_LE(kept.size(), 20u);
    EXPECT_GT(kept.size(), 10u);
    const OpConfig data = DataParallelConfig(g.graph().ops[op], 16);
    EXPECT_NE(std::find(kept.begin(), kept.end(), data), kept.end());
    EXPECT_EQ(kept.front().devices, std::vector<uint32_t>{0});
  }
  const AdditiveCost small =
      MakeAdditiveCost(space, costs, {.configs_max = 64, .table_bytes_max = 16 * 16 * 8});
  EXPECT_LE(small.configs[0].size(), 16u);
}

TEST(OptCnnTest, SaysWhenThereWasNoTime) {
  FakeGraph g(8);
  g.Add(Linear{.outputs = 16}, {g.Input({8, 32})});
  const Machine machine = FakeMachine({});
  const FakeCosts costs;
  const Space space(&g.graph(), &machine);
  const auto result =
      OptCnnSearcher().Search({.space = &space, .costs = &costs}, {.stop = [] { return true; }});
  ASSERT_TRUE(result.ok());
  EXPECT_NE(result->note.find("stopped by the budget"), std::string::npos);
}

}  // namespace
}  // namespace soapstone::planner
