// The search over iterations that overlap.
#include "scheduler/planner/pipeline/stale_search.h"

#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "models/graph/graph.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/cost/roofline_cost.h"
#include "scheduler/planner/planner_fixture.h"

namespace soapstone::planner {
namespace {

constexpr int64_t kFeatures = 2000;

// A linear operator takes 3 ms a sample, whatever part of its outputs and inputs it does.
class LayerCosts : public CostModel {
 public:
  PartCost CostOf(const PlanOp& op, const models::Block& part, uint32_t /*kind*/) const override {
    if (!std::holds_alternative<compute::Linear>(op.what)) return {1, 1};
    return {.forward_ns = kMillisecond * part[0].size(),
            .backward_ns = 2 * kMillisecond * part[0].size()};
  }
  std::string sha256() const override { return "layers"; }
};

OpGraph WideLayers(int layers, int64_t batch) {
  models::GraphBuilder b("wide");
  models::TensorId x = b.Input("x", compute::DataType::kFloat32, {kFeatures});
  for (int i = 0; i < layers; ++i) {
    x = b.Apply(absl::StrCat("fc", i), compute::Linear{.outputs = kFeatures, .bias = false}, {x});
  }
  b.Loss("loss", x);
  return *MakeOpGraph(*b.Build(), {.batch = batch});
}

std::vector<StaleIteration> Iterations(const std::vector<Score>& of) {
  std::vector<StaleIteration> all;
  for (const Score& found : of) all.push_back({static_cast<uint32_t>(all.size()), found});
  return all;
}

TEST(LeastWorthyTest, TwoInAHundredMoreStalenessIsNotWorth) {
  EXPECT_EQ(LeastWorthy(Iterations({{200, 0}, {102, 0}, {100, 0}})).staleness, 1u);
  EXPECT_EQ(LeastWorthy(Iterations({{200, 0}, {103, 0}, {100, 0}})).staleness, 2u);
  EXPECT_EQ(LeastWorthy(Iterations({{100, 0}, {100, 0}})).staleness, 0u);
}

TEST(LeastWorthyTest, WhatDoesNotFitIsNotWorthy) {
  EXPECT_EQ(LeastWorthy(Iterations({{200, 0}, {100, 7}})).staleness, 0u);
  EXPECT_EQ(LeastWorthy(Iterations({{200, 0}, {150, 0}, {100, 7}})).staleness, 1u);
  EXPECT_EQ(LeastWorthy(Iterations({{200, 9}, {100, 7}})).staleness, 0u);
}

// Four layers of 24 ms on four devices, whose weights take 160 ms from one to another: a step takes
// 96 ms at least wherever nothing is replicated, and steps that overlap on four stages 24, and 48
// to apply 16 MB of gradients at 1 GB/s. On a device each layer's weights are applied, 4 · 48 ms.
TEST(StaleSearchTest, APipelineIsFoundThatTheBestStepIsNot) {
  const OpGraph graph = WideLayers(4, 8);
  const Machine machine = FakeMachine({.devices_per_node = 4, .bytes_per_ns = 0.1});
  const LayerCosts costs;
  const Space space(&graph, &machine);
  const SearchProblem problem = {.space = &space, .costs = &costs};
  const Strategy plan = SingleDevice(graph, 0);
  const absl::StatusOr<SearchResult> found = SearchStaleness(problem, plan, 4, {.proposals = 200});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->found.step_ns / kMillisecond, 72);
  EXPECT_GE(found->strategy.staleness, 1u);
  Simulator simulator(&graph, &machine, &costs);
  ASSERT_TRUE(simulator.SetStrategy(found->strategy).ok());
  EXPECT_EQ(simulator.IterationTime(), found->found.step_ns);
}

// One device has nothing to overlap.
TEST(StaleSearchTest, WhereStalenessGainsNothingThereIsNone) {
  const OpGraph graph = WideLayers(3, 4);
  const Machine machine = FakeMachine({.devices_per_node = 1});
  const LayerCosts costs;
  const Space space(&graph, &machine);
  const absl::StatusOr<SearchResult> found = SearchStaleness(
      {.space = &space, .costs = &costs}, SingleDevice(graph, 0), 3, {.proposals = 50});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->strategy.staleness, 0u);
  EXPECT_EQ(found->strategy.ops, SingleDevice(graph, 0).ops);
}

// Beside its bound's 2 in a hundred, and the same each time.
TEST(StaleSearchTest, NoWorseThanThePlanUnderItsOwnBest) {
  const OpGraph graph =
      *MakeOpGraph(*models::BuildModel("gnmt:tiny", models::ModelInput{}), {.batch = 16});
  const Machine machine = FakeMachine({.nodes = 2, .servers = 1});
  const RooflineCost costs(machine.kinds(), {});
  const Space space(&graph, &machine);
  const SearchProblem problem = {.space = &space, .costs = &costs};
  Strategy plan = DataParallel(graph, 4);
  const SearchResult found = *SearchStaleness(problem, plan, 3, {.proposals = 300});
  EXPECT_EQ(found.strategy, SearchStaleness(problem, plan, 3, {.proposals = 300})->strategy);
  Simulator simulator(&graph, &machine, &costs);
  for (plan.staleness = 0; plan.staleness <= 3; ++plan.staleness) {
    ASSERT_TRUE(simulator.SetStrategy(plan).ok());
    EXPECT_LE(static_cast<double>(found.found.step_ns),
              (1 + kStalenessWorth) * static_cast<double>(simulator.IterationTime()));
  }
}

TEST(StaleSearchTest, WithoutTimeThePlanStays) {
  const OpGraph graph = WideLayers(4, 8);
  const Machine machine = FakeMachine({.devices_per_node = 4});
  const LayerCosts costs;
  const Space space(&graph, &machine);
  int asked = 0;
  const SearchOptions options = {.used = [&asked] { return 0.01 * ++asked; }};
  const absl::StatusOr<SearchResult> found =
      SearchStaleness({.space = &space, .costs = &costs}, SingleDevice(graph, 0), 3, options);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->strategy, SingleDevice(graph, 0));
  EXPECT_FALSE(found->note.empty());
}

}  // namespace
}  // namespace soapstone::planner
