// What a chain of proposals leaves behind is what a new simulator makes of the same strategy, bit
// for bit; and timelines keep to the equations of simulator.h.
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/planner/moves.h"
#include "scheduler/planner/planner_fixture.h"
#include "scheduler/planner/simulator.h"

namespace soapstone::planner {
namespace {

using compute::Linear;

// Convolution with halo, batch norm, an lstm in two chunks that share weights, a join, a loss.
OpGraph MixedGraph() {
  FakeGraph g(8);
  FakeTensor image = g.Input({8, 3, 7, 7});
  image =
      g.Add(compute::Conv2d{.channels = 4, .window = compute::Window::Square(3, 2, 1)}, {image});
  image = g.Add(compute::BatchNorm{}, {image});
  image = g.Add(compute::Reshape{.shape = {64}}, {image});
  const FakeTensor left = g.Add(Linear{.outputs = 8}, {image});
  FakeTensor x = g.Input({8, 3, 6});
  auto chunk =
      g.AddAll(compute::Lstm{.hidden = 8, .state = true}, {x, g.Input({8, 8}), g.Input({8, 8})}, 1);
  chunk = g.AddAll(compute::Lstm{.hidden = 8, .state = true}, {x, chunk[1], chunk[2]}, 1);
  const FakeTensor sum = g.Add(compute::Add{}, {left, chunk[1]});
  const FakeTensor logits = g.Add(Linear{.outputs = 12}, {sum});
  g.Add(compute::SoftmaxCrossEntropy{}, {logits, g.Input({8}, compute::DataType::kInt32)});
  return g.graph();
}

// "": queues serve one task at a time, in the order of readiness, at once where they can.
std::string QueueFault(const std::vector<TimelineTask>& timeline) {
  std::map<uint32_t, std::vector<TimelineTask>> queues;
  for (const TimelineTask& task : timeline) {
    queues[task.resource].push_back(task);
  }
  for (auto& [resource, tasks] : queues) {
    // The timeline is in the order of ids.
    std::stable_sort(tasks.begin(), tasks.end(),
                     [](const auto& a, const auto& b) { return a.ready < b.ready; });
    Nanos free_at = 0;
    for (const TimelineTask& task : tasks) {
      if (task.start != std::max(task.ready, free_at) || task.end <= task.start) {
        return absl::StrCat("queue ", resource, " at ", task.start);
      }
      free_at = task.end;
    }
  }
  return "";
}

struct ProposalCase {
  Synchronization synchronization;
  int64_t segment_bytes;
};

class ProposalTest : public testing::TestWithParam<ProposalCase> {};

TEST_P(ProposalTest, ChainsLeaveWhatANewSimulatorMakes) {
  const OpGraph graph = MixedGraph();
  const Machine machine = FakeMachine({.nodes = 2, .servers = 2});
  const FakeCosts costs(0.05);
  const SimulatorOptions options = {.segment_bytes = GetParam().segment_bytes};
  const Space space(&graph, &machine);
  Simulator chain(&graph, &machine, &costs, options), fresh(&graph, &machine, &costs, options);
  MoveMaker moves(&space);
  Dice dice(3, static_cast<uint64_t>(GetParam().synchronization));
  Strategy seed = DataParallel(graph, 4);
  seed.synchronization = GetParam().synchronization;
  ASSERT_TRUE(chain.SetStrategy(seed).ok());
  Nanos now = chain.StepTime();
  for (int i = 0; i < 400; ++i) {
    const auto changes = moves.Draw(chain, &dice);
    // Now and then with bounds, so that early rejections are taken back as well.
    chain.set_early_rejection(dice.Below(2) == 0);
    const Nanos time = chain.Propose(changes, now + now / 50);
    if (time == kNever || dice.Below(2) == 0) {
      chain.Reject();
    } else {
      chain.Accept();
      now = time;
    }
    ASSERT_TRUE(fresh.SetStrategy(chain.strategy()).ok());
    ASSERT_EQ(chain.StepTime(), fresh.StepTime()) << i;
    ASSERT_EQ(chain.StepTime(), now) << i;
    const std::vector<TimelineTask> timeline = chain.Timeline();
    ASSERT_EQ(timeline, fresh.Timeline()) << i;
    ASSERT_EQ(QueueFault(timeline), "") << i;
    const Breakdown a = chain.Explain(), b = fresh.Explain();
    ASSERT_EQ(a.busy_ns, b.busy_ns) << i;
    ASSERT_EQ(a.memory_bytes, b.memory_bytes) << i;
    ASSERT_EQ(a.sync_bytes + a.transfer_bytes, b.sync_bytes + b.transfer_bytes) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, ProposalTest,
                         testing::Values(ProposalCase{Synchronization::kOwner, 0},
                                         ProposalCase{Synchronization::kOwner, 64},
                                         ProposalCase{Synchronization::kRing, 0},
                                         ProposalCase{Synchronization::kServers, 0}));

TEST(QueueFaultTest, FindsATaskThatOvertakes) {
  const OpGraph graph = MixedGraph();
  const Machine machine = FakeMachine({.nodes = 2});
  const FakeCosts costs;
  Simulator simulator(&graph, &machine, &costs);
  ASSERT_TRUE(simulator.SetStrategy(DataParallel(graph, 4)).ok());
  std::vector<TimelineTask> timeline = simulator.Timeline();
  ASSERT_EQ(QueueFault(timeline), "");
  timeline[5].start -= 1;
  EXPECT_NE(QueueFault(timeline), "");
}

}  // namespace
}  // namespace soapstone::planner
