#include "scheduler/planner/additive/tofu.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/additive/communication_volume.h"
#include "scheduler/planner/planner_fixture.h"
#include "scheduler/planner/simulator/simulator.h"

namespace soapstone::planner {
namespace {

using compute::Linear;
using testing::ElementsAre;

int64_t SimulatedBytes(const OpGraph& graph, const Machine& machine, const Strategy& strategy) {
  const FakeCosts costs(1e-6);
  Simulator simulator(&graph, &machine, &costs);
  CHECK(simulator.SetStrategy(strategy).ok());
  const Breakdown parts = simulator.Explain();
  return parts.transfer_bytes + parts.sync_bytes;
}

int64_t Exchanged(const OpGraph& graph, const Strategy& strategy) {
  int64_t bytes = 0;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    bytes += ExchangeBytes(graph.ops[i], strategy.ops[i]);
  }
  return bytes;
}

TEST(HalvedConfigTest, FirstCutsSeparateTheFirstHalfOfTheDevices) {
  FakeGraph g(8);
  g.Add(Linear{.outputs = 16}, {g.Input({8, 32})});
  const PlanOp& op = g.graph().ops[0];
  const std::vector<uint32_t> devices = {0, 1, 2, 3, 4, 5, 6, 7};
  OpConfig config = HalvedConfig(op, {0, 1, 0}, devices);
  EXPECT_THAT(config.degrees, ElementsAre(4, 2, 1));
  EXPECT_THAT(config.devices, ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  config = HalvedConfig(op, {2, kNotCut, 0}, devices);
  EXPECT_THAT(config.degrees, ElementsAre(2, 1, 2));
  EXPECT_THAT(config.devices, ElementsAre(0, 4, 1, 5));
  EXPECT_THAT(HalvedConfig(op, {1}, devices).devices, ElementsAre(0, 4));
}

TEST(DevicesToHalveTest, GoNodeByNodeToAPowerOfTwo) {
  EXPECT_THAT(DevicesToHalve(FakeMachine({.nodes = 3, .devices_per_node = 2})),
              ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(DevicesToHalve(FakeMachine({.devices_per_node = 1})), ElementsAre(0));
}

// The bytes that are minimized are those that the simulator sends.
TEST(TofuTest, BytesAreTheSimulators) {
  for (const char* model : {"alexnet:tiny", "transformer_lm:tiny", "gnmt:tiny", "resnet50:tiny"}) {
    const OpGraph graph =
        *MakeOpGraph(*models::BuildModel(model, models::ModelInput{}), {.batch = 32});
    for (uint32_t nodes : {1u, 2u, 4u}) {
      const Machine machine = FakeMachine({.nodes = nodes});
      const TofuPlan plan = PlanByTofu(graph, machine, {});
      ASSERT_TRUE(CheckStrategy(graph, machine, plan.strategy).ok());
      EXPECT_EQ(plan.bytes.back() - Exchanged(graph, plan.strategy),
                SimulatedBytes(graph, machine, plan.strategy))
          << model << " on " << 2 * nodes;
      EXPECT_TRUE(plan.exact) << model;
      const Strategy data = DataParallel(graph, 2 * nodes);
      EXPECT_LE(plan.bytes.back(), SimulatedBytes(graph, machine, data) + Exchanged(graph, data))
          << model << " on " << 2 * nodes;
    }
  }
}

// At one level, over all cuts of all operators, priced by the simulator.
int64_t LeastByBruteForce(const OpGraph& graph, const Machine& machine) {
  int64_t least = INT64_MAX;
  std::vector<int> dims(graph.ops.size(), 0);
  for (bool more = true; more;) {
    Strategy strategy;
    for (size_t i = 0; i < dims.size(); ++i) {
      strategy.ops.push_back(HalvedConfig(graph.ops[i], {dims[i]}, {0, 1}));
    }
    if (CheckStrategy(graph, machine, strategy).ok()) {
      least = std::min(least, SimulatedBytes(graph, machine, strategy));
    }
    more = false;
    for (size_t i = 0; i < dims.size() && !more; ++i) {
      more = ++dims[i] < static_cast<int>(graph.ops[i].rule.dims.size());
      if (!more) dims[i] = 0;
    }
  }
  return least;
}

TEST(TofuTest, ALevelIsTheLeastOfAllCuts) {
  const Machine machine = FakeMachine({});
  std::vector<int64_t> all;
  for (int64_t batch : {4, 40, 400}) {
    FakeGraph g(batch);
    FakeTensor x = g.Add(Linear{.outputs = 30}, {g.Input({batch, 12})});
    const FakeTensor y = g.Add(Linear{.outputs = 50, .relu = true}, {x});
    x = g.Add(Linear{.outputs = 50}, {x});
    x = g.Add(compute::Add{}, {x, y});
    x = g.Add(Linear{.outputs = 20}, {x});
    g.Add(compute::SoftmaxCrossEntropy{}, {x, g.Input({batch}, compute::DataType::kInt32)});
    const TofuPlan plan = PlanByTofu(g.graph(), machine, {});
    all.push_back(LeastByBruteForce(g.graph(), machine));
    EXPECT_THAT(plan.bytes, ElementsAre(all.back())) << batch;
  }
  EXPECT_LT(all[0], all[1]);
}

TEST(TofuTest, AConvolutionsChainIsTheLeastOfAllCuts) {
  const Machine machine = FakeMachine({});
  FakeGraph g(8);
  FakeTensor x = g.Input({8, 6, 12, 12});
  x = g.Add(compute::Conv2d{.channels = 16, .window = {3, 3, 1, 1, 1, 1}}, {x});
  x = g.Add(compute::Pool{.window = {2, 2, 2, 2}}, {x});
  x = g.Add(compute::Conv2d{.channels = 8, .window = {5, 5, 1, 1, 2, 2}}, {x});
  const TofuPlan plan = PlanByTofu(g.graph(), machine, {});
  EXPECT_THAT(plan.bytes, ElementsAre(LeastByBruteForce(g.graph(), machine)));
}

// 784-512-10 at batch 64 on two devices. In elements: data parallelism sends every parameter there
// and back, 2·(784·512 + 512·10); the reduction split the partial sums of the hidden layer, and
// their gradients, each to the other, 4·64·512. Less yet: hidden units split in both layers, which
// leaves partial sums of the output for the loss to add, 2·64·10, inputs of the model being free.
TEST(TofuTest, Mlp) {
  FakeGraph g(64);
  FakeTensor x = g.Add(Linear{.outputs = 512, .bias = false}, {g.Input({64, 784})});
  x = g.Add(Linear{.outputs = 10, .bias = false}, {x});
  const OpGraph two = g.graph();
  g.Add(compute::SoftmaxCrossEntropy{}, {x, g.Input({64}, compute::DataType::kInt32)});
  const OpGraph graph = g.graph();
  const auto bytes = [](const OpGraph& of, std::vector<int> dims) {
    int64_t sum = 0;
    std::vector<OpConfig> configs;
    for (size_t i = 0; i < of.ops.size(); ++i) {
      configs.push_back(HalvedConfig(of.ops[i], {dims[i]}, {0, 1}));
      sum += SyncBytes(of, static_cast<uint32_t>(i), {configs.back()});
    }
    for (uint32_t e = 0; e < of.edges.size(); ++e) {
      sum += EdgeBytes(WrittenRegions(of, e, configs[of.edges[e].from]),
                       ReadRegions(of, e, configs[of.edges[e].to]), of.edges[e].gradient);
    }
    return sum;
  };
  EXPECT_EQ(bytes(two, {0, 0}), 4 * 813'056);
  EXPECT_EQ(bytes(two, {2, 1}), 4 * 131'072);
  EXPECT_EQ(bytes(two, {1, 2}), 0);
  const TofuPlan plan = PlanByTofu(graph, FakeMachine({}), {});
  EXPECT_THAT(plan.dims, ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(0)));
  EXPECT_THAT(plan.bytes, ElementsAre(4 * 1280));
}

TEST(TofuTest, ChunksOfTimeAreCutAlike) {
  const OpGraph graph = *MakeOpGraph(*models::BuildModel("gnmt:tiny", models::ModelInput{}),
                                     {.batch = 32, .time_chunk = 3});
  const Machine machine = FakeMachine({.nodes = 2});
  const Strategy strategy = PlanByTofu(graph, machine, {}).strategy;
  for (const std::vector<uint32_t>& group : graph.groups) {
    for (uint32_t op : group) {
      EXPECT_EQ(strategy.ops[op].degrees, strategy.ops[group[0]].degrees);
      EXPECT_EQ(strategy.ops[op].devices, strategy.ops[group[0]].devices);
    }
  }
}

TEST(TofuTest, StopsBetweenLevels) {
  const OpGraph graph =
      *MakeOpGraph(*models::BuildModel("lenet5", models::ModelInput{}), {.batch = 32});
  const Machine machine = FakeMachine({.nodes = 2});
  int asked = 0;
  const TofuPlan plan = PlanByTofu(graph, machine, {.stop = [&] { return ++asked == 2; }});
  EXPECT_FALSE(plan.complete);
  EXPECT_EQ(plan.bytes.size(), 1u);
  EXPECT_EQ(plan.strategy, DataParallel(graph, 4));
}

}  // namespace
}  // namespace soapstone::planner
