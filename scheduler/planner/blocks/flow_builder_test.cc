#include "scheduler/planner/blocks/flow_builder.h"

#include <vector>

#include "gtest/gtest.h"
#include "scheduler/planner/planner_fixture.h"

namespace soapstone::planner {
namespace {

// Two nodes of two devices; a message from 0 to 2 goes out of the one node and into the other.
class FlowBuilderTest : public testing::Test {
 protected:
  void Begin() { tasks_.tasks.push_back({}); }

  const Machine machine_ = FakeMachine({.nodes = 2, .devices_per_node = 2, .latency_ns = 10});
  OpenTasks tasks_;
};

TEST_F(FlowBuilderTest, MessagesThatTravelTogetherUseALinkOnce) {
  FlowBuilder flows(&machine_, {});
  Begin();
  flows.AddMessage(machine_.Path(0, 2), 100);
  flows.AddMessage(machine_.Path(1, 3), 200);
  const uint32_t waits[] = {7};
  flows.EndFlow(waits, &tasks_);
  ASSERT_EQ(tasks_.flows.size(), 1u);
  ASSERT_EQ(tasks_.uses.size(), 2u) << "out of the one node, into the other";
  EXPECT_EQ(tasks_.uses[0].resource, flows.LinkResource(machine_.Path(0, 2)[0]));
  EXPECT_EQ(tasks_.uses[0].busy, 300);
  EXPECT_EQ(tasks_.uses[0].offset, 0u);
  EXPECT_EQ(tasks_.uses[0].rest, 20u);
  EXPECT_EQ(tasks_.uses[1].offset, 10u);
  EXPECT_EQ(tasks_.uses[1].rest, 10u);
  EXPECT_EQ(tasks_.done, std::vector<uint32_t>{7});
}

TEST_F(FlowBuilderTest, SegmentsTakeTurnsAndAddUpToTheFlow) {
  FlowBuilder flows(&machine_, {.segment_bytes = 100});
  Begin();
  flows.AddMessage(machine_.Path(0, 1), 250);
  const uint32_t waits[] = {7};
  flows.EndFlow(waits, &tasks_);
  ASSERT_EQ(tasks_.tasks.size(), 3u);
  EXPECT_EQ(tasks_.tasks[0].next_segment, 1);
  EXPECT_EQ(tasks_.tasks[1].next_segment, 2);
  EXPECT_EQ(tasks_.tasks[2].next_segment, -1);
  Nanos busy = 0;
  for (const LinkUse& use : tasks_.uses) busy += use.busy;
  EXPECT_EQ(busy, 250);
  EXPECT_EQ(tasks_.flows[0].done_begin, tasks_.flows[0].done_end) << "the last one is delivered";
  EXPECT_EQ(tasks_.flows[2].done_end - tasks_.flows[2].done_begin, 1u);
}

TEST_F(FlowBuilderTest, LoadsAreSumsByQueueAscending) {
  FlowBuilder flows(&machine_, {});
  for (const uint32_t from : {1u, 0u, 0u}) {
    Begin();
    flows.AddMessage(machine_.Path(from, 2), 100);
    flows.EndFlow({}, &tasks_);
  }
  const OpenTasks* const all[] = {&tasks_};
  std::vector<Load> loads;
  for (int turn = 0; turn < 2; ++turn) {  // nothing is left of the first
    flows.SumLoads(all, &loads);
    ASSERT_EQ(loads.size(), 2u);
    EXPECT_LT(loads[0].resource, loads[1].resource);
    EXPECT_EQ(loads[0].busy, 300);
    EXPECT_EQ(loads[1].busy, 300);
  }
}

}  // namespace
}  // namespace soapstone::planner
