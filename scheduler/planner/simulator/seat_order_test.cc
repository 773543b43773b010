// The order of a timeline is one in which workers can run the strategy.
#include "scheduler/planner/timeline/seat_order.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/cost/no_costs.h"
#include "scheduler/planner/planner_fixture.h"
#include "scheduler/planner/simulator/simulator.h"
#include "strategy/testing/random_strategies.h"

namespace soapstone::planner {
namespace {

TEST(SeatOrderTest, IsOneThatWorkersCanRun) {
  const NoCosts costs;
  int i = 0;
  for (const char* name : {"lenet5", "alexnet", "rnnlm:tiny", "gnmt:tiny", "transformer_lm:tiny"}) {
    for (const int64_t micro_batches : {1, 4}) {
      const OpGraph graph = *MakeOpGraph(*models::BuildModel(name, models::ModelInput{}),
                                         {.batch = 32, .micro_batches = micro_batches});
      Draws draws(static_cast<uint64_t>(++i), 7);
      const auto seats = static_cast<uint32_t>(draws.Between(2, 6));
      const Machine machine = FakeMachine({.nodes = 1, .devices_per_node = seats});
      for (const Strategy& strategy :
           {RandomStrategy(graph, {.seats = seats, .parts_max = 8}, &draws),
            RandomPipeline(graph, seats, &draws)}) {
        Simulator simulator(&graph, &machine, &costs);
        ASSERT_TRUE(simulator.SetStrategy(strategy).ok());
        const Order order = SeatOrder(graph, seats, simulator.Timeline());
        const absl::Status runs = CheckOrder(graph, strategy, order);
        EXPECT_TRUE(runs.ok()) << name << " " << micro_batches << ": " << runs;
      }
    }
  }
}

// A chain on as many seats as it has operators, whose parameters come back before the next begins.
TEST(SeatOrderTest, TimesAreThoseOfTheTimeline) {
  const NoCosts costs;
  const OpGraph graph =
      *MakeOpGraph(*models::BuildModel("mlp", models::ModelInput{}), {.batch = 8});
  const Machine machine = FakeMachine({.nodes = 1, .devices_per_node = 2});
  Strategy strategy = SingleDevice(graph, 0);
  strategy.ops.back().devices = {1};
  for (const uint32_t staleness : {0u, 1u}) {
    strategy.staleness = staleness;
    Simulator simulator(&graph, &machine, &costs);
    ASSERT_TRUE(simulator.SetStrategy(strategy).ok());
    const Order order = SeatOrder(graph, 2, simulator.Timeline());
    const std::vector<TimelineTask> timeline = simulator.IterationTimeline();
    const PlannedTimes times = SeatTimes(order, timeline);
    ASSERT_EQ(times.size(), 2u);
    EXPECT_EQ(times[0][0].begin, 0) << "the first half of all";
    Nanos first = kNever;
    for (const TimelineTask& task : timeline) {
      if (task.kind == TaskKind::kForward) first = std::min(first, task.start);
    }
    // Of an iteration behind many, where they overlap.
    EXPECT_EQ(first > 8 * simulator.IterationTime(), staleness > 0);
    size_t found = 0;
    for (const TimelineTask& task : timeline) {
      const bool backward = task.kind == TaskKind::kBackward;
      if (!backward && task.kind != TaskKind::kForward) continue;
      for (size_t i = 0; i < order[task.resource].size(); ++i) {
        const TaskRef half = {.op = task.of, .part = task.index, .backward = backward};
        if (order[task.resource][i] != half) continue;
        ++found;
        EXPECT_EQ(times[task.resource][i],
                  (PlannedSpan{.begin = task.start - first, .end = task.end - first}));
      }
    }
    EXPECT_EQ(found, order[0].size() + order[1].size());
  }
}

TEST(SeatOrderTest, IsNoneWhereThereIsNoTimeline) {
  const OpGraph graph =
      *MakeOpGraph(*models::BuildModel("mlp", models::ModelInput{}), {.batch = 8});
  EXPECT_TRUE(SeatOrder(graph, 2, {}).empty());
  EXPECT_TRUE(SeatTimes({}, {}).empty());
}

}  // namespace
}  // namespace soapstone::planner
