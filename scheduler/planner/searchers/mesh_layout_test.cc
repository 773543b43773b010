#include "scheduler/planner/searchers/mesh_layout.h"

#include <algorithm>
#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/planner_fixture.h"

namespace soapstone::planner {
namespace {

using compute::Linear;
using testing::ElementsAre;
using testing::Pair;

// 48 inputs, 96 hidden units, 10 outputs.
OpGraph Mlp(int64_t batch) {
  FakeGraph g(batch);
  FakeTensor x = g.Add(Linear{.outputs = 96, .relu = true}, {g.Input({batch, 48})});
  x = g.Add(Linear{.outputs = 10}, {x});
  g.Add(compute::SoftmaxCrossEntropy{}, {x, g.Input({batch}, compute::DataType::kInt32)});
  return g.graph();
}

TEST(NamedDimsTest, AreWhatTensorsAndParametersShare) {
  const std::vector<NamedDim> names = NamedDimsOf(Mlp(8));
  ASSERT_EQ(names.size(), 4u);
  EXPECT_EQ(names[0].name, "n");
  EXPECT_THAT(names[0].members, ElementsAre(Pair(0, 0), Pair(1, 0), Pair(2, 0)));
  // Hidden units: 48·96 + 96 + 96·10 parameters and 8·96 outputs.
  EXPECT_EQ(names[1].name, "linear0.o");
  EXPECT_THAT(names[1].members, ElementsAre(Pair(0, 1), Pair(1, 2)));
  EXPECT_EQ(names[1].weight, 48 * 96 + 96 + 960 + 768);
  EXPECT_EQ(names[2].name, "linear0.i");
  EXPECT_THAT(names[2].members, ElementsAre(Pair(0, 2)));
  EXPECT_THAT(names[3].members, ElementsAre(Pair(1, 1), Pair(2, 1)));
}

TEST(NamedDimsTest, ChunksOfTimeHaveTheNamesOfTheirLayer) {
  const OpGraph graph = *MakeOpGraph(*models::BuildModel("gnmt:tiny", models::ModelInput{}),
                                     {.batch = 8, .time_chunk = 3});
  std::map<std::pair<uint32_t, uint32_t>, size_t> name_of;
  const std::vector<NamedDim> names = NamedDimsOf(graph);
  for (size_t i = 0; i < names.size(); ++i) {
    for (const auto& member : names[i].members) name_of[member] = i;
  }
  for (const std::vector<uint32_t>& group : graph.groups) {
    if (graph.ops[group[0]].params.empty()) continue;
    for (uint32_t op : group) {
      for (uint32_t d = 0; d < graph.ops[op].rule.dims.size(); ++d) {
        const bool of_params = graph.ops[op].rule.dims[d].kind == models::DimKind::kParameter;
        if (!of_params) continue;
        EXPECT_EQ((name_of[{op, d}]), (name_of[{group[0], d}]));
      }
    }
  }
}

// 3 blocks of 32 → 64 → 32 with residual edges: one name for all their hidden units. In a row of
// layers of one width, units of every second one have one name.
TEST(NamedDimsTest, LayersThatAreAlikeShareNames) {
  FakeGraph blocks(4);
  FakeTensor x = blocks.Add(Linear{.outputs = 32}, {blocks.Input({4, 16})});
  for (int i = 0; i < 3; ++i) {
    const FakeTensor hidden = blocks.Add(Linear{.outputs = 64}, {x});
    x = blocks.Add(compute::Add{}, {blocks.Add(Linear{.outputs = 32}, {hidden}), x});
  }
  std::vector<NamedDim> names = NamedDimsOf(blocks.graph());
  ASSERT_EQ(names.size(), 4u);  // samples, hidden, residual, inputs
  const auto hidden = std::find_if(names.begin(), names.end(),
                                   [](const NamedDim& n) { return n.name == "linear1.o"; });
  ASSERT_NE(hidden, names.end());
  EXPECT_THAT(hidden->members,
              ElementsAre(Pair(1, 1), Pair(2, 2), Pair(4, 1), Pair(5, 2), Pair(7, 1), Pair(8, 2)));
  FakeGraph row(4);
  x = row.Input({4, 32});
  for (int i = 0; i < 5; ++i) x = row.Add(Linear{.outputs = 32}, {x});
  names = NamedDimsOf(row.graph());
  const auto even = std::find_if(names.begin(), names.end(),
                                 [](const NamedDim& n) { return n.name == "linear0.o"; });
  ASSERT_NE(even, names.end());
  EXPECT_THAT(even->members, ElementsAre(Pair(0, 1), Pair(1, 2), Pair(2, 1), Pair(3, 2)));
}

TEST(MeshesTest, AreTheOrderedFactorizations) {
  EXPECT_THAT(MeshesOf(1, 3), ElementsAre(ElementsAre(1)));
  EXPECT_THAT(MeshesOf(7, 3), ElementsAre(ElementsAre(7)));
  EXPECT_THAT(MeshesOf(8, 3), ElementsAre(ElementsAre(8), ElementsAre(2, 4), ElementsAre(4, 2),
                                          ElementsAre(2, 2, 2)));
  EXPECT_THAT(MeshesOf(12, 2), ElementsAre(ElementsAre(12), ElementsAre(2, 6), ElementsAre(3, 4),
                                           ElementsAre(4, 3), ElementsAre(6, 2)));
  EXPECT_EQ(MeshesOf(64, 3).size(), 16u);
}

TEST(LayoutStrategyTest, PutsAxesNodeByNode) {
  const OpGraph graph = Mlp(8);
  const Machine machine = FakeMachine({.nodes = 2, .devices_per_node = 3});
  const std::vector<NamedDim> names = NamedDimsOf(graph);
  // Samples over nodes, hidden units within.
  const MeshLayout layout = {{2, 3}, {0, 1, kNoAxis, kNoAxis}};
  EXPECT_TRUE(IsLegal(graph, names, layout));
  const Strategy strategy = LayoutStrategy(graph, machine, names, layout);
  EXPECT_THAT(strategy.ops[0].degrees, ElementsAre(2, 3, 1));
  EXPECT_THAT(strategy.ops[0].devices, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(strategy.ops[1].degrees, ElementsAre(2, 1, 3));
  EXPECT_THAT(strategy.ops[2].degrees, ElementsAre(2, 1));
  EXPECT_THAT(strategy.ops[2].devices, ElementsAre(0, 3));
  // Inputs and outputs of one layer on one axis; and the same for a name that it has twice.
  EXPECT_FALSE(IsLegal(graph, names, {{2, 3}, {0, 1, 1, kNoAxis}}));
  FakeGraph g(4);
  FakeTensor x = g.Add(Linear{.outputs = 6}, {g.Input({4, 6})});
  g.Add(compute::Add{}, {g.Add(Linear{.outputs = 6}, {x}), x});
  const std::vector<NamedDim> residual = NamedDimsOf(g.graph());
  EXPECT_THAT(residual[1].members, ElementsAre(Pair(0, 1), Pair(1, 1), Pair(1, 2), Pair(2, 1)));
  const MeshLayout hidden = {{6}, {kNoAxis, 0, kNoAxis}};
  EXPECT_TRUE(IsLegal(g.graph(), residual, hidden));
  EXPECT_THAT(LayoutStrategy(g.graph(), machine, residual, hidden).ops[1].degrees,
              ElementsAre(1, 6, 1));
}

struct Tried {
  Nanos step = kNever;
  int64_t memory = INT64_MAX;
};

// All layouts, by another way than the search takes; the least time of those that fit, and the
// least memory.
Tried LeastOfAll(const OpGraph& graph, const Machine& machine, const CostModel& costs) {
  const std::vector<NamedDim> names = NamedDimsOf(graph);
  Simulator simulator(&graph, &machine, &costs);
  Tried least;
  for (const auto& sides : MeshesOf(static_cast<uint32_t>(machine.devices().size()), 3)) {
    const auto choices = static_cast<uint64_t>(sides.size()) + 1;
    uint64_t all = 1;
    for (size_t i = 0; i < names.size(); ++i) all *= choices;
    for (uint64_t code = 0; code < all; ++code) {
      MeshLayout layout = {sides, {}};
      uint64_t rest = code;
      for (size_t i = 0; i < names.size(); ++i, rest /= choices) {
        layout.axes.push_back(static_cast<int>(rest % choices) - 1);
      }
      if (!IsLegal(graph, names, layout)) continue;
      Strategy strategy = LayoutStrategy(graph, machine, names, layout);
      strategy.synchronization = Synchronization::kRing;
      CHECK(simulator.SetStrategy(strategy).ok());
      const std::vector<int64_t> memory = simulator.Explain().memory_bytes;
      least.memory = std::min(least.memory, *std::max_element(memory.begin(), memory.end()));
      if (simulator.Overflow() == 0) least.step = std::min(least.step, simulator.StepTime());
    }
  }
  return least;
}

TEST(MeshLayoutTest, IsTheBestOfAllLayouts) {
  const OpGraph graph = Mlp(16);
  // The second one's memory is too small for data parallelism.
  for (uint64_t memory : {uint64_t{1} << 40, uint64_t{40'000}}) {
    const Machine machine =
        FakeMachine({.nodes = 2, .devices_per_node = 2, .memory_bytes = memory});
    const FakeCosts costs(0.2);
    const Tried least = LeastOfAll(graph, machine, costs);
    MeshPlan plan = PlanByMeshLayout(graph, machine, costs, {});
    EXPECT_TRUE(plan.complete);
    EXPECT_EQ(plan.overflow_bytes, 0);
    plan.strategy.synchronization = Synchronization::kRing;
    Simulator simulator(&graph, &machine, &costs);
    ASSERT_TRUE(simulator.SetStrategy(plan.strategy).ok());
    EXPECT_EQ(simulator.StepTime(), least.step);
    EXPECT_LE(plan.step_ns, least.step);
    const MeshPlan small =
        PlanByMeshLayout(graph, machine, costs, {.objective = LayoutObjective::kMemory});
    EXPECT_EQ(small.memory_bytes, least.memory);
    EXPECT_LE(small.memory_bytes, plan.memory_bytes);
    ASSERT_TRUE(simulator.SetStrategy(DataParallel(graph, 4)).ok());
    EXPECT_EQ(simulator.Overflow() > 0, memory == 40'000);
  }
}

TEST(MeshLayoutTest, OneRuleHoldsForAllOperators) {
  for (const char* model : {"alexnet:tiny", "transformer_lm:tiny", "gnmt:tiny"}) {
    const OpGraph graph =
        *MakeOpGraph(*models::BuildModel(model, models::ModelInput{}), {.batch = 16});
    const Machine machine = FakeMachine({.nodes = 2, .devices_per_node = 2});
    const FakeCosts costs(1e-3);
    const MeshPlan plan = PlanByMeshLayout(graph, machine, costs, {.layouts_max = 200});
    EXPECT_FALSE(plan.complete);
    EXPECT_LE(plan.tried, 204u);
    ASSERT_TRUE(CheckStrategy(graph, machine, plan.strategy).ok());
    for (size_t name = 0; name < plan.names.size(); ++name) {
      const int axis = plan.layout.axes[name];
      const uint32_t side = axis == kNoAxis ? 1 : plan.layout.sides[static_cast<size_t>(axis)];
      std::set<uint32_t> ops;
      for (const auto& [op, d] : plan.names[name].members) {
        const bool can = DegreeMax(graph.ops[op].rule.dims[d]) >= side && !ops.contains(op);
        EXPECT_EQ(plan.strategy.ops[op].degrees[d], can ? side : 1) << graph.ops[op].name;
        if (can) ops.insert(op);
      }
    }
    // Samples over all devices are the first layout that it tries.
    Simulator simulator(&graph, &machine, &costs);
    Strategy data = DataParallel(graph, 4);
    data.synchronization = Synchronization::kRing;
    ASSERT_TRUE(simulator.SetStrategy(data).ok());
    EXPECT_LE(plan.step_ns, simulator.StepTime()) << model;
    EXPECT_EQ(TextOf(plan), TextOf(PlanByMeshLayout(graph, machine, costs, {.layouts_max = 200})));
  }
}

TEST(MeshLayoutTest, StopsWhenAsked) {
  const OpGraph graph = Mlp(16);
  const MeshPlan plan =
      PlanByMeshLayout(graph, FakeMachine({}), FakeCosts(), {.stop = [] { return true; }});
  EXPECT_EQ(plan.tried, 1u);
  EXPECT_FALSE(plan.complete);
  EXPECT_EQ(TextOf(plan), "2: n over 0");
}

}  // namespace
}  // namespace soapstone::planner
