#include "scheduler/planner/timeline/bounds.h"

#include "gtest/gtest.h"
#include "scheduler/planner/simulator_fixture.h"

namespace soapstone::planner {
namespace {

TEST(BoundsTest, AreAtMostTheStepAndTailsWhatComesBehind) {
  for (const char* model : {"lenet5", "gnmt:tiny", "inception_v3"}) {
    SimulatorParts p(ZooGraph(model));
    RandomSource random(6, 0);
    for (int turn = 0; turn < 15; ++turn) {
      p.Set(p.DrawStrategy(&random));
      const Nanos path = p.bounds.PathBound(p.now.ops());
      const Nanos device = p.bounds.DeviceBound(p.now.ops(), p.loads.compute());
      const Nanos step = p.timeline.Step();
      ASSERT_LE(path, step) << model;
      ASSERT_LE(device, step) << model;
      for (const TimelineTask& task : p.timeline.Record()) {
        if (task.kind == TaskKind::kForward) {
          ASSERT_LE(task.end + p.bounds.tail_forward(task.of), step) << model;
        }
        if (task.kind != TaskKind::kBackward) continue;
        ASSERT_LE(task.end + p.bounds.tail_backward(task.of), step) << model;
        ASSERT_LE(p.bounds.device_tail(task.resource), p.bounds.tail_backward(task.of)) << model;
      }
    }
  }
}

// Two linears in a row on one device each: 0.05 ns a place, forward once, backward twice.
TEST(BoundsTest, AChainTakesAllThatItComputes) {
  FakeGraph g(10);
  const FakeTensor x = g.Add(compute::Linear{.outputs = 20}, {g.Input({10, 10})});
  g.Add(compute::Linear{.outputs = 10}, {x});
  SimulatorParts p(g.graph());
  Strategy strategy = SingleDevice(p.graph, 0);
  strategy.ops[1].devices = {1};
  p.Set(strategy);
  ASSERT_EQ(p.now.op(0).forward_max, 100);
  ASSERT_EQ(p.now.op(1).backward_max, 200);
  EXPECT_EQ(p.bounds.PathBound(p.now.ops()), 100 + 100 + 200 + 200);
  // The second device: its head is 100, its load 300, and behind it 200 are to come.
  EXPECT_EQ(p.bounds.DeviceBound(p.now.ops(), p.loads.compute()), 600);
  EXPECT_EQ(p.bounds.tail_forward(0), 500);
  EXPECT_EQ(p.bounds.tail_backward(1), 200);
  EXPECT_EQ(p.bounds.device_tail(1), 200);
  EXPECT_EQ(p.bounds.device_tail(3), 0);
}

}  // namespace
}  // namespace soapstone::planner
