#include "scheduler/planner/search/hill_climbing.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/planner/planner_fixture.h"

namespace soapstone::planner {
namespace {

using compute::BatchNorm;
using compute::Conv2d;
using compute::Linear;
using compute::Window;
using testing::Each;
using testing::ElementsAre;
using testing::Lt;

std::vector<std::vector<uint32_t>> DegreesNear(std::vector<uint32_t> degrees, uint32_t reach) {
  std::vector<std::vector<uint32_t>> all;
  for (OpConfig& config : ConfigsNear({.degrees = std::move(degrees)}, reach)) {
    all.push_back(std::move(config.degrees));
  }
  return all;
}

TEST(ConfigsNearTest, AFactorMovesFromADegreeToAnother) {
  using Degrees = std::vector<uint32_t>;
  EXPECT_THAT(DegreesNear({8, 1}, 1), ElementsAre(Degrees{8, 1}, Degrees{4, 2}));
  EXPECT_THAT(DegreesNear({8, 1}, 2), ElementsAre(Degrees{8, 1}, Degrees{4, 2}, Degrees{2, 4}));
  EXPECT_THAT(DegreesNear({3, 2}, 1), ElementsAre(Degrees{3, 2}, Degrees{1, 6}, Degrees{6, 1}));
  EXPECT_THAT(DegreesNear({1, 1}, 2), ElementsAre(Degrees{1, 1}));
}

// Branches side by side, each a convolution and a batch norm, whose samples' statistics go around a
// ring of four devices in six rounds of 2 µs, forward and back. Split by channels it waits for the
// convolution's output instead, while devices compute other branches.
struct BranchesCase {
  explicit BranchesCase(int branches) : machine(FakeMachine(Spec())) {
    FakeGraph g(16);
    const FakeTensor stem =
        g.Add(Conv2d{.channels = 8, .window = Window::Square(1)}, {g.Input({16, 8, 4, 4})});
    for (int i = 0; i < branches; ++i) {
      const FakeTensor x = g.Add(Conv2d{.channels = 8, .window = Window::Square(1)}, {stem});
      g.Add(BatchNorm{}, {x});
      norms.push_back(static_cast<uint32_t>(g.graph().ops.size()) - 1);
    }
    graph = g.graph();
  }
  static FakeMachineSpec Spec() {
    return {.devices_per_node = 4, .bytes_per_ns = 100, .latency_ns = 2000};
  }
  std::vector<uint32_t> SampleDegrees(const Simulator& simulator) const {
    std::vector<uint32_t> degrees;
    for (const uint32_t op : norms) degrees.push_back(simulator.config(op).degrees[0]);
    return degrees;
  }
  OpGraph graph;
  Machine machine;
  FakeCosts costs;
  std::vector<uint32_t> norms;
};

TEST(ClimbTest, WhatIsGoodForAFewIsForAllOfTheKind) {
  const BranchesCase c(24);
  const Space space(&c.graph, &c.machine);
  Simulator simulator(&c.graph, &c.machine, &c.costs);
  ASSERT_TRUE(simulator.SetStrategy(DataParallel(c.graph, 4)).ok());
  const Nanos data = simulator.StepTime();
  EXPECT_THAT(c.SampleDegrees(simulator), Each(4u));
  EXPECT_TRUE(ClimbByOperator(space, {}, &simulator));
  EXPECT_THAT(c.SampleDegrees(simulator), Each(Lt(4u)));
  EXPECT_LT(simulator.StepTime(), data);
  // Without kinds: all that an operator could be, for each of them.
  uint64_t all = 0;
  for (uint32_t op = 0; op < c.graph.ops.size(); ++op) all += space.Configs(op).size();
  EXPECT_LT(simulator.counts().proposed, all);
}

TEST(ClimbTest, EndsWhereNothingNearIsBetter) {
  const BranchesCase c(3);
  const Space space(&c.graph, &c.machine);
  Simulator simulator(&c.graph, &c.machine, &c.costs);
  ASSERT_TRUE(simulator.SetStrategy(DataParallel(c.graph, 4)).ok());
  ASSERT_TRUE(ClimbByOperator(space, {}, &simulator));
  const Nanos climbed = simulator.StepTime();
  const Strategy found = simulator.strategy();
  for (uint32_t op = 0; op < c.graph.ops.size(); ++op) {
    for (const OpConfig& near : ConfigsNear(found.ops[op], 2)) {
      if (!space.Holds(op, near.degrees)) continue;
      Strategy other = found;
      other.ops[op] = near;
      ASSERT_TRUE(simulator.SetStrategy(other).ok());
      EXPECT_GE(simulator.StepTime(), climbed) << op;
    }
  }
  ASSERT_TRUE(simulator.SetStrategy(found).ok());
  EXPECT_TRUE(ClimbByOperator(space, {}, &simulator));
  EXPECT_EQ(simulator.strategy(), found);
}

TEST(ClimbTest, LimitsHold) {
  const BranchesCase c(12);
  const Space space(&c.graph, &c.machine);
  const Strategy data = DataParallel(c.graph, 4);
  std::vector<Strategy> found;
  for (int i = 0; i < 2; ++i) {
    Simulator simulator(&c.graph, &c.machine, &c.costs);
    ASSERT_TRUE(simulator.SetStrategy(data).ok());
    EXPECT_FALSE(ClimbByOperator(space, {.stop = [] { return true; }}, &simulator));
    EXPECT_EQ(simulator.strategy(), data);
    EXPECT_FALSE(ClimbByOperator(space, {.proposals = 60}, &simulator));
    EXPECT_LE(simulator.counts().proposed, 60u);
    found.push_back(simulator.strategy());
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_NE(found[0], data);
}

// Two uses of one large weight: its gradients need not cross the slow links only where both uses
// are split by outputs, or by inputs, alike.
TEST(ClimbTest, AParameterGroupMovesTogether) {
  FakeGraph g(16);
  FakeTensor x = g.Add(Linear{.outputs = 64}, {g.Input({16, 64})}, 1);
  g.Add(Linear{.outputs = 64}, {x}, 1);
  const OpGraph graph = g.graph();
  const Machine machine = FakeMachine({.bytes_per_ns = 0.01});
  const FakeCosts costs(0.1);
  const Space space(&graph, &machine);
  Simulator alone(&graph, &machine, &costs);
  ASSERT_TRUE(alone.SetStrategy(DataParallel(graph, 2)).ok());
  EXPECT_TRUE(ClimbByOperator(space, {}, &alone));
  EXPECT_EQ(alone.strategy(), DataParallel(graph, 2));
  Simulator simulator(&graph, &machine, &costs);
  ASSERT_TRUE(simulator.SetStrategy(DataParallel(graph, 2)).ok());
  const Nanos data = simulator.StepTime();
  EXPECT_TRUE(ClimbByGroup(space, {}, &simulator));
  EXPECT_LT(simulator.StepTime(), data);
  EXPECT_EQ(simulator.config(0), simulator.config(1));
  EXPECT_EQ(simulator.config(0).degrees[0], 1u);
}

TEST(ClimbTest, NothingIsBetterForAChainWithoutParameters) {
  FakeGraph g(16);
  FakeTensor x = g.Input({16, 8, 4, 4});
  for (int i = 0; i < 3; ++i) x = g.Add(compute::LocalResponseNorm{}, {x});
  const OpGraph graph = g.graph();
  const Machine machine = FakeMachine({.devices_per_node = 4, .bytes_per_ns = 10});
  const FakeCosts costs;
  const Space space(&graph, &machine);
  Simulator simulator(&graph, &machine, &costs);
  const Strategy data = DataParallel(graph, 4);
  ASSERT_TRUE(simulator.SetStrategy(data).ok());
  EXPECT_TRUE(ClimbByOperator(space, {}, &simulator));
  EXPECT_EQ(simulator.strategy(), data);
}

}  // namespace
}  // namespace soapstone::planner
