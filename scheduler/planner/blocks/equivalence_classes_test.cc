#include "scheduler/planner/blocks/equivalence_classes.h"

#include <algorithm>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/planner_fixture.h"
#include "scheduler/planner/search/space.h"
#include "scheduler/planner/simulator/simulator.h"

namespace soapstone::planner {
namespace {

OpGraph GraphOf(const std::string& model, const OpGraphOptions& options) {
  return *MakeOpGraph(*models::BuildModel(model, models::ModelInput{}), options);
}

uint32_t NumberOfOp(const OpGraph& graph, const std::string& name) {
  const auto it = std::find_if(graph.ops.begin(), graph.ops.end(),
                               [&](const PlanOp& op) { return op.name == name; });
  EXPECT_NE(it, graph.ops.end()) << name;
  return static_cast<uint32_t>(it - graph.ops.begin());
}

TEST(EquivalenceClassesTest, LayersOfATransformerAreEquivalent) {
  const OpGraph small = GraphOf("transformer_lm:tiny,layers=2", {.batch = 8});
  const OpGraph large = GraphOf("transformer_lm:tiny,layers=5", {.batch = 8});
  const EquivalenceClasses few = FindEquivalenceClasses(small);
  const EquivalenceClasses many = FindEquivalenceClasses(large);
  EXPECT_GT(large.ops.size(), small.ops.size());
  EXPECT_EQ(many.ops, few.ops);
  EXPECT_EQ(many.edges, few.edges);
  EXPECT_EQ(many.groups, few.groups);
  for (const PlanOp& op : large.ops) {
    if (!op.name.starts_with("layers.1.")) continue;
    const uint32_t first = NumberOfOp(large, op.name);
    const uint32_t last = NumberOfOp(large, "layers.4." + op.name.substr(9));
    EXPECT_EQ(many.of_op[first], many.of_op[last]) << op.name;
    EXPECT_EQ(many.of_group[op.group], many.of_group[large.ops[last].group]) << op.name;
  }
}

TEST(EquivalenceClassesTest, MembersHaveOneRuleAndShape) {
  for (const char* model : {"inception_v3", "gnmt:tiny", "lenet5"}) {
    const OpGraph graph = GraphOf(model, {.batch = 7, .time_chunk = 3, .micro_batches = 2});
    const EquivalenceClasses classes = FindEquivalenceClasses(graph);
    std::vector<uint32_t> first(classes.ops, UINT32_MAX);
    for (uint32_t op = 0; op < graph.ops.size(); ++op) {
      uint32_t& other = first[classes.of_op[op]];
      other = std::min(other, op);
      EXPECT_EQ(graph.ops[op].rule, graph.ops[other].rule);
      EXPECT_EQ(graph.ops[op].what, graph.ops[other].what);
      EXPECT_EQ(graph.ops[op].shapes.outputs, graph.ops[other].shapes.outputs);
    }
    // Of 4 samples and of 3.
    const uint32_t loss = static_cast<uint32_t>(graph.ops.size()) - 1;
    EXPECT_NE(classes.of_op[loss], classes.of_op[graph.ops.size() / 2 - 1]) << model;
  }
}

// A member that shares its parameters with another operator is no like of one that does not.
TEST(EquivalenceClassesTest, GroupsThatShareParametersOtherwiseDiffer) {
  OpGraph graph = GraphOf("transformer_lm:tiny,layers=2", {.batch = 8});
  const uint32_t a = NumberOfOp(graph, "layers.0.attention.query");
  const uint32_t b = NumberOfOp(graph, "layers.1.attention.query");
  ASSERT_EQ(FindEquivalenceClasses(graph).of_group[graph.ops[a].group],
            FindEquivalenceClasses(graph).of_group[graph.ops[b].group]);
  graph.params[graph.ops[b].params[0]].ops.push_back(a);
  EXPECT_NE(FindEquivalenceClasses(graph).of_group[graph.ops[a].group],
            FindEquivalenceClasses(graph).of_group[graph.ops[b].group]);
}

// The same step by step, whether operators share what was found or each has its own.
TEST(EquivalenceClassesTest, SharedBlocksGiveTheTimesOfTheirOwn) {
  const Machine machine = FakeMachine({.nodes = 2, .servers = 1});
  const FakeCosts costs(0.01);
  for (const char* model : {"gnmt:tiny", "transformer_lm:tiny,layers=3"}) {
    const OpGraph graph = GraphOf(model, {.batch = 8, .time_chunk = 3, .micro_batches = 2});
    OpGraph unlike = graph;
    int64_t number = 0;
    for (PlanOp& op : unlike.ops) op.what = compute::Linear{.outputs = ++number};
    EXPECT_LT(FindEquivalenceClasses(graph).ops, graph.ops.size() / 2);
    EXPECT_EQ(FindEquivalenceClasses(unlike).ops, graph.ops.size());
    Simulator shared(&graph, &machine, &costs), own(&unlike, &machine, &costs);
    const Space space(&graph, &machine);
    RandomSource random(1, 0);
    Strategy strategy = DataParallel(graph, 4);
    for (int turn = 0; turn < 30; ++turn) {
      strategy.synchronization = static_cast<Synchronization>(turn % 3);
      ASSERT_TRUE(shared.SetStrategy(strategy).ok() && own.SetStrategy(strategy).ok());
      ASSERT_EQ(shared.Timeline(), own.Timeline());
      ASSERT_EQ(shared.Overflow(), own.Overflow());
      ASSERT_EQ(shared.Explain().memory_bytes, own.Explain().memory_bytes);
      ASSERT_EQ(shared.Explain().sync_bytes, own.Explain().sync_bytes);
      for (int i = 0; i < 20; ++i) {
        Change change = {.op = random.Below(static_cast<uint32_t>(graph.ops.size()))};
        space.DrawBlock(change.op, &random, &change.config);
        ASSERT_EQ(shared.Propose({&change, 1}, kNever - 1), own.Propose({&change, 1}, kNever - 1));
        shared.Accept();
        own.Accept();
        strategy.ops[change.op] = change.config;
      }
    }
  }
}

}  // namespace
}  // namespace soapstone::planner
