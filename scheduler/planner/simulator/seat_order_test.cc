// The order of a timeline is one in which workers can run the strategy.
#include "scheduler/planner/timeline/seat_order.h"

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

TEST(SeatOrderTest, IsNoneWhereThereIsNoTimeline) {
  const OpGraph graph =
      *MakeOpGraph(*models::BuildModel("mlp", models::ModelInput{}), {.batch = 8});
  EXPECT_TRUE(SeatOrder(graph, 2, {}).empty());
}

}  // namespace
}  // namespace soapstone::planner
