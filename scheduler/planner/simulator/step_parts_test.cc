#include "scheduler/planner/simulator/step_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "scheduler/planner/searchers/baselines.h"
#include "scheduler/planner/simulator_fixture.h"

namespace soapstone::planner {
namespace {

TimelineTask Task(TaskKind kind, uint32_t resource, Nanos start, Nanos end) {
  return {.kind = kind, .resource = resource, .start = start, .end = end};
}

// Device 1 computes longest. While it does not: 10-14 a transfer, of which 12-14 beside a
// synchronization, 14-15 that alone, 15-18 nothing, 40-45 a synchronization, 45-47 its latency.
TEST(StepPartsTest, AreOfTheBusiestDeviceAndAddUpToTheStep) {
  const std::vector<TimelineTask> timeline = {
      Task(TaskKind::kForward, 0, 0, 18),      Task(TaskKind::kForward, 1, 0, 10),
      Task(TaskKind::kTransfer, 2, 5, 14),     Task(TaskKind::kSynchronize, 3, 12, 15),
      Task(TaskKind::kBackward, 1, 18, 40),    Task(TaskKind::kGradient, 3, 20, 30),
      Task(TaskKind::kSynchronize, 3, 38, 45),
  };
  StepPartsFold fold(1);
  for (const TimelineTask& task : timeline) fold.Add(task);
  const StepParts parts = fold.Parts(47);
  EXPECT_EQ(parts.device, 1u);
  EXPECT_EQ(parts.step_ns, 47);
  EXPECT_EQ(parts.compute_ns, 32);
  EXPECT_EQ(parts.communication_ns, 4);
  EXPECT_EQ(parts.synchronization_ns, 1 + 5);
  EXPECT_EQ(parts.idle_ns, 3 + 2);
}

// The device that computes longest is that of the timeline's tasks, and so are its parts.
TEST(StepPartsTest, OfAStrategyAreThoseOfItsTimeline) {
  const OpGraph graph = ZooGraph("alexnet:tiny");
  const Machine machine = FakeMachine({.nodes = 2, .servers = 2});
  const FakeCosts costs(0.05);
  Simulator simulator(&graph, &machine, &costs);
  for (const Strategy& strategy :
       {DataParallel(graph, 4), ModelParallel(graph, machine, costs), SingleDevice(graph, 2)}) {
    ASSERT_TRUE(simulator.SetStrategy(strategy).ok());
    const std::vector<TimelineTask> timeline = simulator.Timeline();
    std::vector<Nanos> computes(4, 0);
    for (const TimelineTask& task : timeline) {
      if (task.kind == TaskKind::kForward || task.kind == TaskKind::kBackward) {
        computes[task.resource] += task.end - task.start;
      }
    }
    EXPECT_EQ(simulator.compute_ns(), computes);
    const StepParts parts = PartsOf(&simulator);
    EXPECT_EQ(computes[parts.device], *std::max_element(computes.begin(), computes.end()));
    StepPartsFold fold(parts.device);
    for (const TimelineTask& task : timeline) fold.Add(task);
    const StepParts folded = fold.Parts(simulator.StepTime());
    EXPECT_EQ(parts.step_ns, simulator.StepTime());
    EXPECT_EQ(parts.compute_ns, computes[parts.device]);
    EXPECT_EQ(parts.communication_ns, folded.communication_ns);
    EXPECT_EQ(parts.synchronization_ns, folded.synchronization_ns);
    EXPECT_EQ(parts.step_ns,
              parts.compute_ns + parts.communication_ns + parts.synchronization_ns + parts.idle_ns);
  }
}

}  // namespace
}  // namespace soapstone::planner
