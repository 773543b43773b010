#include "scheduler/planner/pipeline/gpipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/graph/graph.h"
#include "scheduler/planner/planner_fixture.h"
#include "scheduler/planner/search/space.h"
#include "scheduler/planner/simulator/simulator.h"

namespace soapstone::planner {
namespace {

using testing::ElementsAre;
using Times = std::vector<std::vector<double>>;

double SlowestOf(const Times& times, const std::vector<PipelineStage>& stages) {
  double slowest = 0;
  for (const PipelineStage& stage : stages) {
    const std::vector<double>& of = times[stage.devices[0]];
    slowest =
        std::max(slowest, std::accumulate(of.begin() + stage.begin, of.begin() + stage.end, 0.0));
  }
  return slowest;
}

// All ways to deal layers from `begin` on out to devices from `k` on, tried one by one.
double LeastOfAll(const Times& times, size_t k, size_t begin) {
  const size_t layers = times[0].size();
  if (begin == layers) return 0;
  if (k == times.size()) return std::numeric_limits<double>::infinity();
  double least = LeastOfAll(times, k + 1, begin);
  double stage = 0;
  for (size_t end = begin + 1; end <= layers; ++end) {
    stage += times[k][end - 1];
    least = std::min(least, std::max(stage, LeastOfAll(times, k + 1, end)));
  }
  return least;
}

TEST(GPipeTest, StagesAreAsEvenAsTheyCanBe) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomSource random(seed, 0);
    const size_t layers = 1 + seed % 8;
    Times times(1 + seed / 8 % 5, std::vector<double>(layers));
    for (std::vector<double>& of : times) {
      const double slowness = 1 + random.Below(3);
      for (size_t l = 0; l < layers; ++l) of[l] = slowness * random.Uniform();
    }
    const std::vector<PipelineStage> stages = BalanceStages(times);
    EXPECT_NEAR(SlowestOf(times, stages), LeastOfAll(times, 0, 0), 1e-12) << seed;
    uint32_t at = 0;
    for (const PipelineStage& stage : stages) {
      EXPECT_EQ(stage.begin, at);
      EXPECT_GT(stage.end, at);
      at = stage.end;
    }
    EXPECT_EQ(at, layers);
  }
}

TEST(GPipeTest, AMuchSlowerDeviceIsLeftOut) {
  const std::vector<PipelineStage> stages = BalanceStages(Times{{1, 1}, {9, 9}, {1, 1}});
  EXPECT_THAT(stages, ElementsAre(PipelineStage{0, 1, {0}}, PipelineStage{1, 2, {2}}));
}

// A linear operator takes a launch and so much a sample.
class LaunchCosts : public CostModel {
 public:
  explicit LaunchCosts(Nanos launch_ns) : launch_ns_(launch_ns) {}
  PartCost CostOf(const PlanOp& op, const models::Block& part, uint32_t /*kind*/) const override {
    if (!std::holds_alternative<compute::Linear>(op.what)) return {1, 1};
    const Nanos ns = launch_ns_ + kMillisecond * part[0].size();
    return {.forward_ns = ns, .backward_ns = 2 * ns};
  }
  std::string sha256() const override { return "launch"; }

 private:
  const Nanos launch_ns_;
};

OpGraph FourLinears(int64_t batch, int64_t micro_batches) {
  models::GraphBuilder b("linears");
  models::TensorId x = b.Input("x", compute::DataType::kFloat32, {3});
  for (int i = 0; i < 4; ++i) {
    x = b.Apply(absl::StrCat("fc", i), compute::Linear{.outputs = 3, .bias = false}, {x});
  }
  b.Loss("loss", x);
  return *MakeOpGraph(*b.Build(), {.batch = batch, .micro_batches = micro_batches});
}

// Without launches the bubble is all: 32 micro-batches of a sample, (32 + 3)·3 ms. With 3 ms a
// launch, of 32/m samples: (m + 3)·3·(3 + 32/m) is least for m = 4 and 8: 7·33 = 231 and 11·21.
TEST(GPipeTest, TheBubbleAndLaunchesSetTheMicroBatches) {
  const Machine machine = FakeMachine({.devices_per_node = 4});
  const GPipePlan bubble = PlanGPipe(FourLinears(32, 1), machine, LaunchCosts(0));
  EXPECT_EQ(bubble.micro_batches, 32);
  EXPECT_EQ(bubble.stages.size(), 4u);
  EXPECT_NEAR(bubble.step_s, 0.105, 1e-6);
  const GPipePlan launches = PlanGPipe(FourLinears(32, 1), machine, LaunchCosts(3 * kMillisecond));
  EXPECT_EQ(launches.micro_batches, 4);
  EXPECT_NEAR(launches.step_s, 0.231, 1e-6);
}

TEST(GPipeTest, LimitsAreKept) {
  const Machine machine = FakeMachine({.devices_per_node = 4});
  const GPipePlan plan = PlanGPipe(FourLinears(32, 1), machine, LaunchCosts(0),
                                   {.stages_max = 2, .micro_batches_max = 8});
  EXPECT_EQ(plan.micro_batches, 8);
  EXPECT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(PlanGPipe(FourLinears(3, 1), machine, LaunchCosts(0)).micro_batches, 2);
}

// Stages of one operator and of two, and free transfers.
TEST(GPipeTest, TheSimulatorAgreesWithTheEstimate) {
  const Machine machine = FakeMachine({.devices_per_node = 4, .bytes_per_ns = 1e3});
  for (const Nanos launch : {Nanos{0}, 3 * kMillisecond}) {
    for (const uint32_t stages : {4u, 2u}) {
      const LaunchCosts costs(launch);
      const GPipePlan plan = PlanGPipe(FourLinears(32, 1), machine, costs, {.stages_max = stages});
      ASSERT_EQ(plan.stages.size(), stages);
      const OpGraph graph = FourLinears(32, plan.micro_batches);
      Simulator simulator(&graph, &machine, &costs);
      ASSERT_TRUE(simulator.SetStrategy(StrategyOfStages(graph, plan.stages, 0)).ok());
      EXPECT_NEAR(static_cast<double>(simulator.StepTime()) / 1e9, plan.step_s, 1e-5);
    }
  }
}

}  // namespace
}  // namespace soapstone::planner
