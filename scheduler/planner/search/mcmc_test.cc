#include "scheduler/planner/search/mcmc.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/planner/planner_fixture.h"

namespace soapstone::planner {
namespace {

using compute::Linear;

// Four layers, of which the second is used twice, on two nodes of two devices.
struct WalkCase {
  WalkCase() {
    FakeGraph g(16);
    FakeTensor x = g.Add(Linear{.outputs = 24}, {g.Input({16, 12})});
    x = g.Add(Linear{.outputs = 24}, {x}, 1);
    x = g.Add(Linear{.outputs = 24}, {x}, 1);
    x = g.Add(Linear{.outputs = 40}, {x});
    g.Add(compute::SoftmaxCrossEntropy{}, {x, g.Input({16}, compute::DataType::kInt32)});
    graph = g.graph();
  }
  SearchResult Search(const SearchOptions& options) const {
    const Space space(&graph, &machine);
    const Strategy seed = DataParallel(graph, 4);
    absl::StatusOr<SearchResult> result = SearchByWalk(space, costs, {&seed, 1}, options);
    CHECK(result.ok()) << result.status();
    return *std::move(result);
  }
  OpGraph graph;
  Machine machine = FakeMachine({.nodes = 2});
  FakeCosts costs;
};

TEST(WalkTest, EarlyRejectionLeavesTheWalkAsItIs) {
  const WalkCase c;
  SearchOptions options = {.proposals = 3000, .chains = 1, .descend = false};
  const SearchResult early = c.Search(options);
  options.early_rejection = false;
  const SearchResult late = c.Search(options);
  EXPECT_EQ(early.chain_digest, late.chain_digest);
  EXPECT_EQ(early.strategy, late.strategy);
  EXPECT_GT(early.accepted, 50u);
  EXPECT_GT(early.counts.by_compute, 50u);
  EXPECT_GT(early.counts.aborted, 50u);
  EXPECT_EQ(late.counts.simulated, late.counts.proposed);
}

TEST(WalkTest, ThreadsDoNotMatter) {
  const WalkCase c;
  SearchOptions options = {.proposals = 2000, .chains = 3, .threads = 1};
  const SearchResult one = c.Search(options);
  options.threads = 3;
  const SearchResult three = c.Search(options);
  EXPECT_EQ(one.chain_digest, three.chain_digest);
  EXPECT_EQ(one.strategy, three.strategy);
  options.seed = 2;
  EXPECT_NE(one.chain_digest, c.Search(options).chain_digest);
}

TEST(WalkTest, NoChangeOfOneOperatorIsBetter) {
  const WalkCase c;
  const SearchResult result = c.Search({.proposals = 2000});
  EXPECT_TRUE(result.locally_optimal);
  EXPECT_LT(result.found.step_ns, result.best_seed.step_ns);
  Simulator simulator(&c.graph, &c.machine, &c.costs);
  const Space space(&c.graph, &c.machine);
  for (uint32_t op = 0; op < c.graph.ops.size(); ++op) {
    for (const OpConfig& config : space.Configs(op)) {
      Strategy other = result.strategy;
      other.ops[op] = config;
      ASSERT_TRUE(simulator.SetStrategy(other).ok());
      EXPECT_GE(simulator.StepTime(), result.found.step_ns) << op;
    }
  }
}

TEST(WalkTest, StopsWhenAsked) {
  const WalkCase c;
  const SearchResult result = c.Search({.stop = [] { return true; }});
  EXPECT_EQ(result.found.step_ns, result.best_seed.step_ns);
  EXPECT_FALSE(result.locally_optimal);
}

// Both devices' links are slow: what the walk finds moves no more than the reduction split does.
TEST(WalkTest, FindsTheReductionSplitOfTheMlp) {
  FakeGraph g(64);
  const FakeTensor x = g.Add(Linear{.outputs = 512, .bias = false}, {g.Input({64, 784})});
  g.Add(Linear{.outputs = 10, .bias = false}, {x});
  const OpGraph graph = g.graph();
  const Machine machine = FakeMachine({.bytes_per_ns = 0.1});
  const FakeCosts costs(0.01);
  const Space space(&graph, &machine);
  const Strategy seed = DataParallel(graph, 2);
  const auto result = SearchByWalk(space, costs, {&seed, 1}, {.proposals = 3000});
  ASSERT_TRUE(result.ok());
  Simulator simulator(&graph, &machine, &costs);
  ASSERT_TRUE(simulator.SetStrategy(result->strategy).ok());
  const Breakdown parts = simulator.Explain();
  EXPECT_LE(parts.sync_bytes + parts.transfer_bytes, 131'072 * 4);
  Strategy reduction = seed;
  reduction.ops[0].degrees = {1, 1, 2};
  reduction.ops[1].degrees = {1, 2, 1};
  ASSERT_TRUE(simulator.SetStrategy(reduction).ok());
  EXPECT_LE(result->found.step_ns, simulator.StepTime());
}

TEST(WalkTest, KeepsToWhatAStepMayMove) {
  FakeGraph g(64);
  FakeTensor x = g.Input({64, 784});
  for (const int64_t outputs : {512, 10}) x = g.Add(Linear{.outputs = outputs, .bias = false}, {x});
  const OpGraph graph = g.graph();
  const Machine machine = FakeMachine({});
  const FakeCosts costs;
  const Space space(&graph, &machine);
  const Strategy seed = DataParallel(graph, 2);
  constexpr int64_t kMoved = 131'072 * 4;  // data parallelism: 813,056 floats
  const auto result = SearchByWalk(space, costs, {&seed, 1},
                                   {.proposals = 2000, .simulator = {.moved_bytes_max = kMoved}});
  ASSERT_TRUE(result.ok());
  EXPECT_GT(result->best_seed.overflow_bytes, 0);
  EXPECT_EQ(result->found.overflow_bytes, 0);
  Simulator simulator(&graph, &machine, &costs);
  ASSERT_TRUE(simulator.SetStrategy(result->strategy).ok());
  EXPECT_LE(simulator.Explain().transfer_bytes + simulator.Explain().sync_bytes, kMoved);
}

TEST(WalkTest, MovesIntoMemory) {
  FakeGraph g(8);
  const FakeTensor x = g.Add(Linear{.outputs = 64, .bias = false}, {g.Input({8, 64})});
  g.Add(Linear{.outputs = 64, .bias = false}, {x});
  const OpGraph graph = g.graph();
  const Machine machine = FakeMachine({.memory_bytes = 40'000});  // two layers: 65,536 of weights
  const FakeCosts costs;
  const Space space(&graph, &machine);
  const Strategy seed = DataParallel(graph, 2);
  const auto result = SearchByWalk(space, costs, {&seed, 1}, {.proposals = 2000});
  ASSERT_TRUE(result.ok());
  EXPECT_GT(result->best_seed.overflow_bytes, 0);
  EXPECT_EQ(result->found.overflow_bytes, 0);
}

}  // namespace
}  // namespace soapstone::planner
