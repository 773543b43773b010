#include "scheduler/planner/additive/accpar.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/additive/tofu.h"
#include "scheduler/planner/cost/roofline_cost.h"
#include "scheduler/planner/planner_fixture.h"
#include "scheduler/planner/searchers/baselines.h"
#include "scheduler/planner/simulator/strategy_evaluator.h"
#include "strategy/machine_text.h"

namespace soapstone::planner {
namespace {

using compute::Linear;
using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;

// Between layers of the three types: where the first has its output, where the second needs it.
TEST(ConversionTest, GivesThePapersTable) {
  const int had[] = {0, kAllOfIt, 1};     // I, II once summed up, III
  const int needed[] = {0, 1, kAllOfIt};  // I, II, III
  const double alpha = 0.7;
  const double beta = 0.3;
  const double f = 1000;
  const double e = 10;
  const double table[3][3] = {{0, alpha * beta * (f + e), beta * f},
                              {beta * e, beta * e, 0},
                              {alpha * beta * (f + e), 0, beta * f}};
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      HalvesComm comm = ConversionOf(had[from], needed[to], f, 0);
      comm += ConversionOf(needed[to], had[from], e, 0);
      EXPECT_DOUBLE_EQ(comm.fixed + alpha * beta * comm.crossed + beta * comm.far, table[from][to])
          << from << " to " << to;
    }
  }
  EXPECT_EQ(ConversionOf(0, 1, 5, 2).fixed, 2);
  EXPECT_EQ(ConversionOf(1, 1, 5, 2).fixed, 0);
}

TEST(BalancedRatioTest, BothHalvesEndTogetherOrTheSlowerEndsSoonest) {
  EXPECT_DOUBLE_EQ(BalancedRatio(1, 2, 0, 0, 0.01), 2.0 / 3);
  EXPECT_DOUBLE_EQ(BalancedRatio(7, 7, 0, 3, 0.01), 0.5);
  EXPECT_DOUBLE_EQ(BalancedRatio(7, 7, 0, 7, 0.01), 0.5);  // 0/0
  // 0.4 + α + 0.2·β = 2·β + 0.2·α at α = 1.4/2.6
  EXPECT_DOUBLE_EQ(BalancedRatio(1, 2, 0.4, 0.2, 0.01), 1.4 / 2.6);
  EXPECT_DOUBLE_EQ(BalancedRatio(1, 100, 0, 50, 0.01), 0.99);  // what is sent outweighs
  for (double first : {1.0, 3.0, 10.0}) {
    for (double far : {0.0, 2.0, 5.0, 20.0}) {
      const auto slower = [&](double alpha) {
        return std::max(alpha * first + (1 - alpha) * far, (1 - alpha) * 4 + alpha * far);
      };
      const double got = BalancedRatio(first, 4, 0, far, 0.05);
      for (double alpha = 0.05; alpha < 0.951; alpha += 0.01) {
        EXPECT_LE(slower(got), slower(alpha) + 1e-12) << first << " " << far << " " << alpha;
      }
    }
  }
}

Machine PairMachine() {
  std::ifstream file(absl::StrCat(SOAPSTONE_SOURCE_DIR,
                                  "/examples/machines/heterogeneous_pair.machine.textproto"));
  std::stringstream text;
  text << file.rdbuf();
  return *ParseMachine(text.str(), "pair");
}

Nanos StepOf(const OpGraph& graph, const Machine& machine, const CostModel& costs,
             Strategy strategy, Synchronization way) {
  strategy.synchronization = way;
  Simulator simulator(&graph, &machine, &costs);
  CHECK(simulator.SetStrategy(strategy).ok());
  return simulator.StepTime();
}

// Of the unlike pair, 2 : 1. Equal: all operators halved, in AccPar's or another's way, or none.
void ExpectUnequalIsBetter(const std::string& model, int64_t time_chunk) {
  const OpGraph graph = *MakeOpGraph(*models::BuildModel(model, models::ModelInput{}),
                                     {.batch = 128, .time_chunk = time_chunk});
  const Machine machine = PairMachine();
  const RooflineCost costs(machine.kinds(), UsualEfficiencies());
  const AccParPlan plan = PlanByAccPar(graph, machine, costs, {});
  ASSERT_EQ(plan.ratios.size(), 1u);
  EXPECT_THAT(plan.ratios[0], ElementsAre(DoubleNear(2.0 / 3, 0.05)));
  Strategy unequal = plan.strategy;
  ASSERT_TRUE(StrategyEvaluator(&graph, &machine, &costs).PriceBest(&unequal).ok());
  const Strategy equal = PlanByAccPar(graph, machine, costs, {.equal = true}).strategy;
  const Strategy tofu = PlanByTofu(graph, machine, {}).strategy;
  Nanos best_equal = kNever;
  for (const Strategy& other : {equal, tofu, DataParallel(graph, 2), SingleDevice(graph, 0),
                                ExpertStrategy(graph, machine)}) {
    for (Synchronization way : {Synchronization::kOwner, Synchronization::kRing}) {
      best_equal = std::min(best_equal, StepOf(graph, machine, costs, other, way));
    }
  }
  const Nanos got = StepOf(graph, machine, costs, unequal, unequal.synchronization);
  EXPECT_GE(static_cast<double>(best_equal), 1.3 * static_cast<double>(got)) << model;
  int64_t samples = 0;
  int64_t cut = 0;
  for (const OpConfig& config : unequal.ops) {
    if (config.cuts.empty() || config.cuts[0].empty()) continue;
    ++samples;
    cut += config.cuts[0][0];
  }
  ASSERT_GT(samples, 0);
  EXPECT_NEAR(static_cast<double>(cut) / static_cast<double>(samples), 128 * 2.0 / 3, 7) << model;
}

TEST(AccParTest, UnequalPartsOfAlexnet) { ExpectUnequalIsBetter("alexnet", 0); }
TEST(AccParTest, UnequalPartsOfGnmt) { ExpectUnequalIsBetter("gnmt", 10); }

TEST(AccParTest, LikeDevicesHaveEqualParts) {
  for (const char* model : {"alexnet:tiny", "gnmt:tiny", "resnet50:tiny"}) {
    const OpGraph graph =
        *MakeOpGraph(*models::BuildModel(model, models::ModelInput{}), {.batch = 32});
    const Machine machine = FakeMachine({.nodes = 2, .devices_per_node = 2});
    const RooflineCost costs(machine.kinds(), {});
    const AccParPlan plan = PlanByAccPar(graph, machine, costs, {});
    ASSERT_EQ(plan.ratios.size(), 2u);
    EXPECT_THAT(plan.ratios[0], ElementsAre(0.5)) << model;
    EXPECT_THAT(plan.ratios[1], ElementsAre(0.5, 0.5)) << model;
    for (const OpConfig& config : plan.strategy.ops) EXPECT_TRUE(config.cuts.empty());
    EXPECT_TRUE(CheckStrategy(graph, machine, plan.strategy).ok());
    EXPECT_TRUE(plan.exact);
  }
}

// Two layers whose weights are many and whose batch is small: III then II, which needs only the sum
// of the last output; with a large batch both by sample.
TEST(AccParTest, TypesFollowTheSizes) {
  const Machine machine = FakeMachine({});
  const RooflineCost costs(machine.kinds(), {});
  for (int64_t batch : {8, 4096}) {
    FakeGraph g(batch);
    FakeTensor x = g.Add(Linear{.outputs = 256, .bias = false}, {g.Input({batch, 256})});
    x = g.Add(Linear{.outputs = 16, .bias = false}, {x});
    g.Add(compute::SoftmaxCrossEntropy{}, {x, g.Input({batch}, compute::DataType::kInt32)});
    const AccParPlan plan = PlanByAccPar(g.graph(), machine, costs, {});
    if (batch == 8) {
      EXPECT_THAT(plan.dims, ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(0)));
    } else {
      EXPECT_THAT(plan.dims, Each(ElementsAre(0)));
    }
  }
}

}  // namespace
}  // namespace soapstone::planner
