#include "strategy/order.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"

namespace soapstone::planner {
namespace {

using testing::HasSubstr;

models::Graph Model() { return *models::BuildModel("lenet5", models::ModelInput{}); }

// The first half of the operators on seat 0, the others on seat 1.
Strategy TwoStages(const OpGraph& graph) {
  Strategy strategy;
  const size_t ops = graph.ops.size() / static_cast<size_t>(graph.micro_batches);
  for (size_t k = 0; k < graph.ops.size(); ++k) {
    strategy.ops.push_back({.degrees = std::vector<uint32_t>(graph.ops[k].rule.dims.size(), 1),
                            .devices = {k % ops < ops / 2 ? 0u : 1u}});
  }
  return strategy;
}

// The most micro-batches that a seat has begun and not ended.
int64_t MostUnderWay(const OpGraph& graph, const std::vector<TaskRef>& tasks) {
  std::vector<int64_t> left(static_cast<size_t>(graph.micro_batches), 0);
  std::vector<bool> begun(left.size());
  for (const TaskRef& task : tasks) left[graph.ops[task.op].micro_batch] += task.backward ? 1 : 0;
  int64_t now = 0;
  int64_t most = 0;
  for (const TaskRef& task : tasks) {
    const uint32_t m = graph.ops[task.op].micro_batch;
    if (!begun[m]) ++now;
    begun[m] = true;
    most = std::max(most, now);
    if (task.backward && --left[m] == 0) --now;
  }
  return most;
}

TEST(OrderTest, CanonicalOrdersPassTheCheck) {
  for (const int64_t m : {1, 2, 5}) {
    const OpGraph graph = *MakeOpGraph(Model(), {.batch = 10, .micro_batches = m});
    for (const uint32_t in_flight : {0u, 1u, 2u}) {
      const Strategy strategy = TwoStages(graph);
      const Order order = CanonicalOrder(graph, strategy, 2, in_flight);
      EXPECT_TRUE(CheckOrder(graph, strategy, order).ok()) << m << " " << in_flight;
      if (in_flight == 0) continue;
      EXPECT_LE(MostUnderWay(graph, order[0]), in_flight);
    }
  }
}

TEST(OrderTest, TheLastStageOfAPipelineTakesOneForwardAndOneBackward) {
  const OpGraph graph = *MakeOpGraph(Model(), {.batch = 8, .micro_batches = 4});
  const Strategy strategy = TwoStages(graph);
  const Order order = CanonicalOrder(graph, strategy, 2, 2);
  EXPECT_EQ(MostUnderWay(graph, order[1]), 1);
  EXPECT_EQ(MostUnderWay(graph, order[0]), 2);
}

TEST(OrderTest, WrongOrdersAreNamed) {
  const OpGraph graph = *MakeOpGraph(Model(), {.batch = 4});
  const Strategy strategy = TwoStages(graph);
  const Order good = CanonicalOrder(graph, strategy, 2);
  Order order = good;
  order[0].push_back(order[0].front());
  EXPECT_THAT(std::string(CheckOrder(graph, strategy, order).message()), HasSubstr("twice"));
  order = good;
  order[1].pop_back();
  EXPECT_THAT(std::string(CheckOrder(graph, strategy, order).message()), HasSubstr("lacks"));
  order = good;
  std::swap(order[0].back(), order[1].back());
  EXPECT_THAT(std::string(CheckOrder(graph, strategy, order).message()), HasSubstr("another"));
  order = good;
  order[0].push_back({.op = 1000});
  EXPECT_THAT(std::string(CheckOrder(graph, strategy, order).message()), HasSubstr("has not"));
  order = good;  // a backward half before the forward half that it waits for
  std::reverse(order[0].begin(), order[0].end());
  const absl::Status cycle = CheckOrder(graph, strategy, order);
  EXPECT_THAT(std::string(cycle.message()), HasSubstr("wait for each other"));
  EXPECT_THAT(std::string(cycle.message()), HasSubstr("on seat 1"));
}

TEST(Order, WishesAreKeptWhereTheyCanBe) {
  const OpGraph graph = *MakeOpGraph(Model(), {.batch = 8, .micro_batches = 4});
  const Strategy strategy = TwoStages(graph);
  for (const uint32_t in_flight : {0u, 1u, 2u}) {
    const Order order = CanonicalOrder(graph, strategy, 2, in_flight);
    TimedOrder wished = TimesOf(graph, strategy, order);
    EXPECT_EQ(Settled(graph, strategy, wished), order);
    // By these all would wait for ever.
    for (TimedTask& timed : wished[0]) timed.start = -timed.start;
    EXPECT_TRUE(CheckOrder(graph, strategy, Settled(graph, strategy, wished)).ok());
    // Forward halves first, whatever their times.
    for (std::vector<TimedTask>& seat : wished) {
      std::stable_partition(seat.begin(), seat.end(),
                            [](const TimedTask& timed) { return !timed.task.backward; });
    }
    const Order settled = Settled(graph, strategy, wished);
    EXPECT_TRUE(CheckOrder(graph, strategy, settled).ok());
    for (const std::vector<TaskRef>& seat : settled) {
      EXPECT_TRUE(std::is_partitioned(seat.begin(), seat.end(),
                                      [](const TaskRef& task) { return !task.backward; }));
    }
  }
}

}  // namespace
}  // namespace soapstone::planner
