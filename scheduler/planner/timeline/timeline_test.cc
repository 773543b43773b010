#include "scheduler/planner/timeline/timeline.h"

#include <vector>

#include "gtest/gtest.h"
#include "scheduler/planner/simulator_fixture.h"

namespace soapstone::planner {
namespace {

class TimelineTest : public testing::TestWithParam<int64_t> {};  // micro-batches

INSTANTIATE_TEST_SUITE_P(MicroBatches, TimelineTest, testing::Values(1, 4));

// Beyond the cutoff it may find out too late, and then it is the step as well.
TEST_P(TimelineTest, UpToACutoffIsTheStepWhereThatIsNoLonger) {
  SimulatorParts p(ZooGraph("gnmt:tiny", GetParam()));
  RandomSource random(8, 0);
  for (int turn = 0; turn < 20; ++turn) {
    p.Set(p.DrawStrategy(&random));
    p.bounds.PathBound(p.now.ops());
    p.bounds.DeviceBound(p.now.ops(), p.loads.compute());
    const Nanos step = p.timeline.Step();
    EXPECT_EQ(p.timeline.StepUpTo(step), step);
    EXPECT_EQ(p.timeline.StepUpTo(2 * step), step);
    const Nanos drawn = random.Below(static_cast<uint32_t>(step));
    for (const Nanos cutoff : {step - 1, drawn}) {
      const Nanos found = p.timeline.StepUpTo(cutoff);
      EXPECT_TRUE(found == kNever || found == step) << found;
    }
    EXPECT_EQ(p.timeline.StepUpTo(step / 2), kNever);
  }
}

TEST_P(TimelineTest, RunsLeaveNoTrace) {
  SimulatorParts p(ZooGraph("lenet5", GetParam()));
  RandomSource random(8, 1);
  for (int turn = 0; turn < 20; ++turn) {
    Strategy strategy = p.DrawStrategy(&random);
    strategy.staleness = random.Below(3);
    p.Set(strategy);
    p.bounds.PathBound(p.now.ops());
    p.bounds.DeviceBound(p.now.ops(), p.loads.compute());
    const std::vector<TaskState> placed = p.tasks.states();
    const std::vector<TimelineTask> timeline = p.timeline.Record();
    EXPECT_EQ(p.tasks.states(), placed);
    EXPECT_EQ(p.timeline.StepUpTo(p.timeline.Step() / 2), kNever);
    EXPECT_EQ(p.tasks.states(), placed);
    p.timeline.Iteration();
    EXPECT_EQ(p.tasks.states(), placed);
    EXPECT_EQ(p.timeline.Record(), timeline);
  }
}

TEST_P(TimelineTest, AnIterationIsNoShorterThanTheBusiestQueue) {
  SimulatorParts p(ZooGraph("lenet5", GetParam()));
  Strategy strategy = DataParallel(p.graph, 4);
  strategy.staleness = 2;
  p.Set(strategy);
  EXPECT_GE(p.timeline.Iteration(), p.loads.BusiestQueue());
}

}  // namespace
}  // namespace soapstone::planner
