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

TEST(StrategyEvaluatorTest, RefusesWhatIsNoStrategy) {
  const EvaluatorCase c;
  StrategyEvaluator evaluator(&c.graph, &c.machine, &c.costs);
  Strategy none;
  EXPECT_FALSE(evaluator.PriceBest(&none).ok());
  EXPECT_FALSE(evaluator.Price(none).ok());
}

}  // namespace
}  // namespace soapstone::planner
