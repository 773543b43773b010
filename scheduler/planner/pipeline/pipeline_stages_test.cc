#include "scheduler/planner/pipeline/pipeline_stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/zoo/zoo.h"
#include "scheduler/planner/planner_fixture.h"

namespace soapstone::planner {
namespace {

using testing::ElementsAre;

// x [4, 2] → a [4, 3] → b [4, 3] → a + b → c [4, 5]
models::Graph Skip() {
  models::GraphBuilder b("skip");
  const models::TensorId x = b.Input("x", compute::DataType::kFloat32, {2});
  const models::TensorId a = b.Apply("a", compute::Linear{.outputs = 3, .bias = false}, {x});
  const models::TensorId y = b.Apply("b", compute::Linear{.outputs = 3, .bias = false}, {a});
  const models::TensorId sum = b.Apply("sum", compute::Add{}, {a, y});
  b.Loss("loss", b.Apply("c", compute::Linear{.outputs = 5, .bias = false}, {sum}));
  return *b.Build();
}

// A place is a nanosecond forward and two backward; weights 2·3, 3·3, 3·5; what a cut sends.
TEST(PipelineStagesTest, LayersAreTheGroupsOfTheGraph) {
  const OpGraph graph = *MakeOpGraph(Skip(), {.batch = 4});
  const std::vector<PipelineLayer> layers = LayersOf(graph, FakeMachine({}), FakeCosts());
  ASSERT_EQ(layers.size(), 5u);
  EXPECT_NEAR(layers[0].compute_s, 3e-9 * 4 * 2 * 3, 1e-15);
  EXPECT_NEAR(layers[3].compute_s, 3e-9 * 4 * 3 * 5, 1e-15);
  EXPECT_EQ(layers[0].weight_bytes, 4 * 6);
  EXPECT_EQ(layers[1].weight_bytes, 4 * 9);
  EXPECT_EQ(layers[2].weight_bytes, 0);
  EXPECT_EQ(layers[0].boundary_bytes, 4 * 12);
  EXPECT_EQ(layers[1].boundary_bytes, 4 * 24);  // a goes on to the sum
  EXPECT_EQ(layers[2].boundary_bytes, 4 * 12);
  EXPECT_EQ(layers[3].boundary_bytes, 4 * 20);
  EXPECT_EQ(layers[4].boundary_bytes, 0);
}

TEST(PipelineStagesTest, MicroBatchesAndChunksAddUpToTheLayer) {
  const models::Graph model = *models::BuildModel("rnnlm:tiny", models::ModelInput{});
  const FakeCosts costs;
  const Machine machine = FakeMachine({});
  const OpGraph whole = *MakeOpGraph(model, {.batch = 6});
  const OpGraph cut = *MakeOpGraph(model, {.batch = 6, .time_chunk = 2, .micro_batches = 3});
  const std::vector<PipelineLayer> expected = LayersOf(whole, machine, costs);
  const std::vector<PipelineLayer> layers = LayersOf(cut, machine, costs);
  ASSERT_EQ(layers.size(), expected.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    EXPECT_NEAR(layers[i].compute_s, expected[i].compute_s, 1e-9);
    EXPECT_EQ(layers[i].weight_bytes, expected[i].weight_bytes);
    EXPECT_GE(layers[i].boundary_bytes, expected[i].boundary_bytes);
  }
}

TEST(PipelineStagesTest, ReplicasShareOutTheSamples) {
  const OpGraph graph = *MakeOpGraph(Skip(), {.batch = 8, .micro_batches = 2});
  const std::vector<PipelineStage> stages = {{0, 2, {3, 1, 0}}, {2, 5, {2}}};
  const Strategy strategy = StrategyOfStages(graph, stages, 1);
  EXPECT_EQ(strategy.staleness, 1u);
  EXPECT_TRUE(CheckStrategy(graph, FakeMachine({.devices_per_node = 4}), strategy).ok());
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    if (graph.ops[i].group < 2) {
      EXPECT_THAT(strategy.ops[i].devices, ElementsAre(3, 1, 0)) << i;
    } else {
      EXPECT_THAT(strategy.ops[i].devices, ElementsAre(2)) << i;
    }
  }
}

TEST(PipelineStagesTest, FewSamplesUseFewReplicas) {
  const OpGraph graph = *MakeOpGraph(Skip(), {.batch = 2});
  const std::vector<PipelineStage> stages = {{0, 5, {3, 1, 0}}};
  EXPECT_THAT(StrategyOfStages(graph, stages, 0).ops[0].devices, ElementsAre(3, 1));
}

}  // namespace
}  // namespace soapstone::planner
