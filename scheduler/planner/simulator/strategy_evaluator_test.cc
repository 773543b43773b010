#include "scheduler/planner/simulator/strategy_evaluator.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/planner_fixture.h"

namespace soapstone::planner {
namespace {

struct EvaluatorCase {
  OpGraph graph = *MakeOpGraph(*models::BuildModel("lenet5", models::ModelInput{}), {.batch = 64});
  Machine machine = FakeMachine({.nodes = 2, .bytes_per_ns = 0.1, .servers = 2});
  FakeCosts costs;
  Strategy data = DataParallel(graph, 4);

  Score PriceOf(Synchronization way) const {
    Strategy strategy = data;
    strategy.synchronization = way;
    Simulator simulator(&graph, &machine, &costs);
    CHECK(simulator.SetStrategy(strategy).ok());
    return {simulator.StepTime(), simulator.Overflow()};
  }
};

TEST(StrategyEvaluatorTest, ChoosesTheBestOfTheWaysItMay) {
  const EvaluatorCase c;
  using Ways = std::vector<Synchronization>;
  const Ways all = SynchronizationsOf(c.machine);
  EXPECT_EQ(all.size(), 3u);
  for (const Ways& ways : {all, Ways{Synchronization::kOwner, Synchronization::kServers},
                           Ways{Synchronization::kOwner}}) {
    StrategyEvaluator evaluator(&c.graph, &c.machine, &c.costs, {}, ways);
    Strategy best = c.data;
    const Score found = *evaluator.PriceBest(&best);
    EXPECT_NE(std::find(ways.begin(), ways.end(), best.synchronization), ways.end());
    EXPECT_EQ(found.step_ns, c.PriceOf(best.synchronization).step_ns);
    for (const Synchronization way : ways) EXPECT_FALSE(c.PriceOf(way) < found);
  }
}

TEST(StrategyEvaluatorTest, WhatOneHasPricedNoOtherSimulates) {
  const EvaluatorCase c;
  CostCache list;
  Strategy first = c.data, second = c.data;
  StrategyEvaluator a(&c.graph, &c.machine, &c.costs, {}, {}, &list);
  StrategyEvaluator b(&c.graph, &c.machine, &c.costs, {}, {}, &list);
  const Score by_a = *a.PriceBest(&first);
  const Score by_b = *b.PriceBest(&second);
  EXPECT_EQ(first, second);
  EXPECT_EQ(by_a.step_ns, by_b.step_ns);
  EXPECT_EQ(a.counts().simulated, 3u);
  EXPECT_EQ(b.counts().simulated, 0u);
  // The staleness and the way are part of what is priced.
  second.staleness = 1;
  EXPECT_FALSE(list.Find(second).has_value());
  EXPECT_TRUE(b.Look(second).ok());
  EXPECT_EQ(b.counts().simulated, 1u);
}

// Whenever it is given up, while blocks are found or while the timeline runs: what follows is as if
// it had not been tried.
TEST(StrategyEvaluatorTest, WhatIsGivenUpLeavesNoTrace) {
  const EvaluatorCase c;
  StrategyEvaluator evaluator(&c.graph, &c.machine, &c.costs);
  for (const Synchronization way : SynchronizationsOf(c.machine)) {
    Strategy strategy = c.data;
    strategy.synchronization = way;
    uint64_t asked = 0;
    StrategyEvaluator counting(&c.graph, &c.machine, &c.costs);
    counting.set_give_up([&asked] { return ++asked == 0; });
    ASSERT_EQ(counting.Price(strategy)->step_ns, c.PriceOf(way).step_ns);
    // Of each operator, connection and group, and of the timeline at least once.
    ASSERT_GT(asked, c.graph.ops.size() + c.graph.groups.size() + 1);
    for (uint64_t last = 1; last <= asked; ++last) {
      uint64_t left = last;
      evaluator.set_give_up([&left] { return --left == 0; });
      EXPECT_TRUE(absl::IsDeadlineExceeded(evaluator.Price(strategy).status())) << last;
      EXPECT_EQ(left, 0u);
      if (last % 7 != 0 && last != asked) continue;
      evaluator.set_give_up({});
      EXPECT_EQ(evaluator.Price(strategy)->step_ns, c.PriceOf(way).step_ns) << last;
    }
  }
}

TEST(StrategyEvaluatorTest, AWayThatIsGivenUpIsLeftOutForGood) {
  const EvaluatorCase c;
  CostCache list;
  StrategyEvaluator evaluator(&c.graph, &c.machine, &c.costs, {}, {}, &list);
  Strategy owner = c.data;
  owner.synchronization = Synchronization::kOwner;
  ASSERT_TRUE(evaluator.Look(owner)->priced());
  evaluator.set_give_up([] { return true; });
  Strategy best = c.data;
  EXPECT_EQ(evaluator.PriceBest(&best)->step_ns, c.PriceOf(Synchronization::kOwner).step_ns);
  EXPECT_EQ(best, owner);
  evaluator.set_give_up({});
  Strategy ring = c.data;
  ring.synchronization = Synchronization::kRing;
  EXPECT_FALSE(evaluator.Look(ring)->priced());
  Strategy none = ring;
  none.ops[0].devices[0] = 99;
  EXPECT_FALSE(evaluator.Look(none).ok());
}

TEST(StrategyEvaluatorTest, RefusesWhatIsNoStrategy) {
  const EvaluatorCase c;
  StrategyEvaluator evaluator(&c.graph, &c.machine, &c.costs);
  Strategy none;
  EXPECT_FALSE(evaluator.PriceBest(&none).ok());
  EXPECT_FALSE(evaluator.Price(none).ok());
}

}  // namespace
}  // namespace soapstone::planner
