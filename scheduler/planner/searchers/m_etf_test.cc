#include "scheduler/planner/searchers/m_etf.h"

#include "gtest/gtest.h"
#include "scheduler/planner/planner_fixture.h"

namespace soapstone::planner {
namespace {

using compute::Linear;

std::vector<uint32_t> Placed(const OpGraph& graph, const Machine& machine, double floats = 0) {
  const FakeCosts costs;
  const Strategy strategy = EarliestTaskFirst(graph, machine, costs, floats);
  EXPECT_TRUE(CheckStrategy(graph, machine, strategy).ok());
  std::vector<uint32_t> devices;
  for (const OpConfig& config : strategy.ops) devices.push_back(config.devices[0]);
  return devices;
}

// Two branches: the second starts at 0 on a device that is free.
TEST(MetfTest, BranchesRunSideBySide) {
  FakeGraph g(4);
  const FakeTensor a = g.Add(Linear{.outputs = 8}, {g.Input({4, 8})});
  const FakeTensor b = g.Add(Linear{.outputs = 8}, {g.Input({4, 8})});
  g.Add(compute::Add{}, {a, b});
  EXPECT_EQ(Placed(g.graph(), FakeMachine({})), (std::vector<uint32_t>{0, 1, 0}));
}

// What a message takes is longer than the wait: 3 · 4·8·8 ns of work against 4·8·4 bytes at 0.01 a
// nanosecond.
TEST(MetfTest, AChildStaysWhereItsInputIs) {
  FakeGraph g(4);
  const FakeTensor a = g.Add(Linear{.outputs = 8}, {g.Input({4, 8})});
  g.Add(Linear{.outputs = 8}, {a});
  g.Add(Linear{.outputs = 8}, {a});
  EXPECT_EQ(Placed(g.graph(), FakeMachine({.bytes_per_ns = 0.01})),
            (std::vector<uint32_t>{0, 0, 0}));
  // At 10 bytes a nanosecond and 10 ns of latency the second child does not wait for the first.
  EXPECT_EQ(Placed(g.graph(), FakeMachine({.bytes_per_ns = 10})), (std::vector<uint32_t>{0, 0, 1}));
}

// 64·64·4 = 16,384 bytes of weights, as many of gradients, 2,048 of outputs a layer: 34,816.
TEST(MetfTest, MemoryIsReserved) {
  FakeGraph g(8);
  FakeTensor x = g.Add(Linear{.outputs = 64, .bias = false}, {g.Input({8, 64})});
  g.Add(Linear{.outputs = 64, .bias = false}, {x});
  EXPECT_EQ(Placed(g.graph(), FakeMachine({.memory_bytes = 2 * 34'816})),
            (std::vector<uint32_t>{0, 0}));
  EXPECT_EQ(Placed(g.graph(), FakeMachine({.memory_bytes = 2 * 34'816 - 1})),
            (std::vector<uint32_t>{0, 1}));
  // A float of momentum: 16,384 more each.
  EXPECT_EQ(Placed(g.graph(), FakeMachine({.memory_bytes = 2 * 34'816}), 1),
            (std::vector<uint32_t>{0, 1}));
  // Room for none: the one with most room, which is the other one the second time.
  EXPECT_EQ(Placed(g.graph(), FakeMachine({.memory_bytes = 1000})), (std::vector<uint32_t>{0, 1}));
}

TEST(MetfTest, ParameterGroupsStayTogether) {
  FakeGraph g(4);
  g.Add(Linear{.outputs = 8}, {g.Input({4, 8})}, 1);
  g.Add(Linear{.outputs = 8}, {g.Input({4, 8})}, 1);
  g.Add(Linear{.outputs = 8}, {g.Input({4, 8})});
  EXPECT_EQ(Placed(g.graph(), FakeMachine({})), (std::vector<uint32_t>{0, 0, 1}));
}

}  // namespace
}  // namespace soapstone::planner
