// Stages of several devices each, and boundaries between them that move.
#include "scheduler/planner/pipeline/replicated_stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "models/graph/graph.h"
#include "scheduler/planner/planner_fixture.h"
#include "scheduler/planner/search/coordinate_descent.h"
#include "scheduler/planner/search/stage_shift.h"
#include "scheduler/planner/searchers/split_searchers.h"

namespace soapstone::planner {
namespace {

using ::testing::ElementsAre;

// A linear operator takes a millisecond a sample forward and two back, the others nothing.
class SampleCosts : public CostModel {
 public:
  PartCost CostOf(const PlanOp& op, const models::Block& part, uint32_t /*kind*/) const override {
    if (!std::holds_alternative<compute::Linear>(op.what)) return {1, 1};
    const Nanos ns = kMillisecond * part[0].size();
    return {.forward_ns = ns, .backward_ns = 2 * ns};
  }
  std::string sha256() const override { return "samples"; }
};

OpGraph LinearLayers(int layers, int64_t batch, int64_t micro_batches) {
  models::GraphBuilder b("layers");
  models::TensorId x = b.Input("x", compute::DataType::kFloat32, {3});
  for (int i = 0; i < layers; ++i) {
    x = b.Apply(absl::StrCat("fc", i), compute::Linear{.outputs = 3, .bias = false}, {x});
  }
  b.Loss("loss", x);
  return *MakeOpGraph(*b.Build(), {.batch = batch, .micro_batches = micro_batches});
}

// Two stages of two devices: 2 layers of 4 samples each, halved; 4 micro-batches pass.
TEST(ReplicatedStagesTest, ABlocksDevicesShareOutItsSamples) {
  const OpGraph graph = LinearLayers(4, 16, 4);
  const Machine machine = FakeMachine({.nodes = 2});
  const BlockPlan plan = BalanceBlocks(graph, machine, SampleCosts(), 2);
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_THAT(plan.stages[0].devices, ElementsAre(0, 1));
  EXPECT_THAT(plan.stages[1].devices, ElementsAre(2, 3));
  EXPECT_EQ(plan.stages[1].begin, 2u);
  EXPECT_NEAR(plan.stage_ns / 1e6, 2 * 3 * 2, 1e-3);
  EXPECT_NEAR(plan.step_ns / 1e6, 5 * 12, 1e-2);
}

// Of 3 samples one of two devices has 2.
TEST(ReplicatedStagesTest, TheLargestPartCounts) {
  const OpGraph graph = LinearLayers(2, 3, 1);
  const Machine machine = FakeMachine({.nodes = 2});
  EXPECT_NEAR(BalanceBlocks(graph, machine, SampleCosts(), 2).stage_ns / 1e6, 2 * 3, 1e-3);
}

// One micro-batch of 8 samples takes 2·2·12 ms on two blocks and 4·24 on four; eight of a sample
// (8 + 1)·2·3 and (8 + 3)·3.
TEST(ReplicatedStagesTest, PlansAreInTheOrderOfTheirEstimates) {
  const Machine machine = FakeMachine({.devices_per_node = 4});
  const std::vector<BlockPlan> whole = BlockPlans(LinearLayers(4, 8, 1), machine, SampleCosts());
  ASSERT_EQ(whole.size(), 2u);
  EXPECT_EQ(whole[0].stages.size(), 2u);
  EXPECT_LT(whole[0].step_ns, whole[1].step_ns);
  const std::vector<BlockPlan> cut = BlockPlans(LinearLayers(4, 8, 8), machine, SampleCosts());
  EXPECT_EQ(cut[0].stages.size(), 4u);
  EXPECT_NEAR(cut[0].step_ns / 1e6, 11 * 3, 1e-2);
}

// The simulator's steps, without transfers, are the estimate.
TEST(ReplicatedStagesTest, TheSimulatorAgrees) {
  const OpGraph graph = LinearLayers(4, 16, 4);
  const Machine machine = FakeMachine({.devices_per_node = 4, .bytes_per_ns = 1e3});
  const SampleCosts costs;
  const BlockPlan plan = BalanceBlocks(graph, machine, costs, 2);
  Simulator simulator(&graph, &machine, &costs);
  ASSERT_TRUE(simulator.SetStrategy(StrategyOfStages(graph, plan.stages, 0)).ok());
  EXPECT_NEAR(static_cast<double>(simulator.StepTime()), plan.step_ns, 1e4);
}

// Groups 0-4 (the loss is the last), a boundary in front of 2.
Strategy TwoStages(const OpGraph& graph, uint32_t boundary) {
  const auto groups = static_cast<uint32_t>(graph.groups.size());
  const PipelineStage stages[] = {{0, boundary, {0}}, {boundary, groups, {1}}};
  return StrategyOfStages(graph, stages, 0);
}

TEST(StageShiftTest, GroupsNextToTheBoundaryTakeTheOtherSidesDevices) {
  const OpGraph graph = LinearLayers(4, 4, 2);
  const Machine machine = FakeMachine({});
  const SampleCosts costs;
  const Space space(&graph, &machine);
  Simulator simulator(&graph, &machine, &costs);
  ASSERT_TRUE(simulator.SetStrategy(TwoStages(graph, 2)).ok());
  EXPECT_TRUE(IsStageBoundary(graph, simulator, 2));
  EXPECT_FALSE(IsStageBoundary(graph, simulator, 3));
  std::vector<Change> changes;
  for (const uint32_t groups : {1u, 2u, 9u}) {
    for (const bool later : {false, true}) {
      ShiftStage(space, simulator, {.boundary = 2, .later = later, .groups = groups}, &changes);
      Strategy moved = simulator.strategy();
      for (const Change& change : changes) moved.ops[change.op] = change.config;
      const uint32_t to = later ? std::min(2 + groups, 5u) : 2 - std::min(groups, 2u);
      const uint32_t sole = later ? 0 : 1;
      const Strategy wanted = to == 0 || to == 5 ? SingleDevice(graph, sole) : TwoStages(graph, to);
      EXPECT_EQ(moved.ops, wanted.ops) << groups << later;
    }
  }
}

// 1 + 5 layers become 3 + 3: (4 + 1)·3·3 ms, and each proposal is one of the eight at a boundary.
TEST(StageShiftTest, ADescentEvensOutTwoStages) {
  const OpGraph graph = LinearLayers(6, 4, 4);
  const Machine machine = FakeMachine({.bytes_per_ns = 1e3});
  const SampleCosts costs;
  const Space space(&graph, &machine);
  Simulator simulator(&graph, &machine, &costs);
  ASSERT_TRUE(simulator.SetStrategy(TwoStages(graph, 1)).ok());
  EXPECT_TRUE(DescendByStage(space, {}, &simulator));
  EXPECT_EQ(simulator.StepTime() / kMillisecond, 45);
  EXPECT_FALSE(DescendByStage(space, {.trials = {.proposals = 1}}, &simulator));
}

// (8 + 3)·3 ms in four stages of a device, (8 + 1)·2·3 in two of two, which share out no sample.
TEST(StagesSearcherTest, TheBestNumberOfBlocksIsFound) {
  const OpGraph graph = LinearLayers(4, 8, 8);
  const Machine machine = FakeMachine({.devices_per_node = 4, .bytes_per_ns = 1e3});
  const SampleCosts costs;
  const Space space(&graph, &machine);
  const absl::StatusOr<SearchResult> found =
      StagesSearcher().Search({.space = &space, .costs = &costs}, {});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->found.step_ns / kMillisecond, 33);
  EXPECT_FALSE(found->best_seed < found->found);
}

TEST(StagesSearcherTest, OneDeviceHasOneStage) {
  const OpGraph graph = LinearLayers(2, 4, 2);
  const Machine machine = FakeMachine({.devices_per_node = 1});
  const SampleCosts costs;
  const Space space(&graph, &machine);
  const absl::StatusOr<SearchResult> found =
      StagesSearcher().Search({.space = &space, .costs = &costs}, {});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->strategy.ops, SingleDevice(graph, 0).ops);
}

}  // namespace
}  // namespace soapstone::planner
