// What a chain of proposals leaves behind is what a new simulator makes of the same strategy, bit
// for bit; and timelines keep to the equations of timeline.h.
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/planner/search/proposals.h"
#include "scheduler/planner/simulator/simulator.h"
#include "scheduler/planner/simulator_fixture.h"

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

// LeNet-5 in four micro-batches.
OpGraph MicroBatches() {
  return *MakeOpGraph(*models::BuildModel("lenet5", models::ModelInput{}),
                      {.batch = 8, .micro_batches = 4});
}

// The least (micro-batch, readiness) first among those that are ready when the device is free,
// at once where something is. What neither tells apart may come in any order.
std::string DeviceFault(const OpGraph& graph, std::vector<TimelineTask> tasks) {
  const auto turn = [&](const TimelineTask& task) {
    const bool computes = task.kind == TaskKind::kForward || task.kind == TaskKind::kBackward;
    return std::pair<int64_t, Nanos>(
        computes ? graph.ops[task.of].micro_batch : graph.micro_batches - 1, task.ready);
  };
  std::sort(tasks.begin(), tasks.end(),
            [](const auto& a, const auto& b) { return a.start < b.start; });
  Nanos free_at = 0;
  for (auto it = tasks.begin(); it != tasks.end(); ++it) {
    Nanos first = kNever;
    for (auto other = it; other != tasks.end(); ++other) first = std::min(first, other->ready);
    if (it->start != std::max(first, free_at) || it->ready > it->start || it->end <= it->start) {
      return absl::StrCat("device at ", it->start);
    }
    for (auto other = it; other != tasks.end(); ++other) {
      if (other->ready <= it->start && turn(*other) < turn(*it)) {
        return absl::StrCat("overtaken at ", it->start);
      }
    }
    free_at = it->end;
  }
  return "";
}

// "": queues serve one task at a time, in the order of readiness (devices by micro-batch, where
// there are several), at once where they can.
std::string QueueFault(const OpGraph& graph, size_t devices,
                       const std::vector<TimelineTask>& timeline) {
  std::map<uint32_t, std::vector<TimelineTask>> queues;
  for (const TimelineTask& task : timeline) {
    queues[task.resource].push_back(task);
  }
  for (auto& [resource, tasks] : queues) {
    if (graph.micro_batches > 1 && resource < devices) {
      std::string fault = DeviceFault(graph, tasks);
      if (!fault.empty()) return fault;
      continue;
    }
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
  bool in_micro_batches = false;
  uint32_t staleness = 0;
  bool on_nodes = false;  // servers
  bool rings_by_ranges = false;
};

class ProposalTest : public testing::TestWithParam<ProposalCase> {};

TEST_P(ProposalTest, ChainsLeaveWhatANewSimulatorMakes) {
  const OpGraph graph = GetParam().in_micro_batches ? MicroBatches() : MixedGraph();
  // Without latencies QueueFault can tell whose turn it is where paths of two lengths meet.
  const bool on_nodes = GetParam().on_nodes;
  const Machine machine = FakeMachine(
      {.nodes = 2, .latency_ns = on_nodes ? 0 : 10, .servers = 2, .on_nodes = on_nodes});
  const size_t devices = machine.devices().size();
  const FakeCosts costs(0.05);
  const SimulatorOptions options = {.segment_bytes = GetParam().segment_bytes,
                                    .optimizer_floats = 2,
                                    .rings_by_ranges = GetParam().rings_by_ranges};
  const Space space(&graph, &machine);
  Simulator chain(&graph, &machine, &costs, options), fresh(&graph, &machine, &costs, options);
  Simulator late(&graph, &machine, &costs, options);  // runs everything to its end
  late.set_early_rejection(false);
  ProposalGenerator moves(&space);
  RandomSource random(3, static_cast<uint64_t>(GetParam().synchronization));
  Strategy seed = DataParallel(graph, 4);
  seed.synchronization = GetParam().synchronization;
  seed.staleness = GetParam().staleness;
  ASSERT_TRUE(chain.SetStrategy(seed).ok());
  ASSERT_TRUE(late.SetStrategy(seed).ok());
  Nanos now = chain.StepTime();
  int moved = 0;  // accepted with other servers
  for (int i = 0; i < 400; ++i) {
    const auto changes = moves.Draw(chain, &random);
    const auto servers = moves.servers();
    // Now and then with bounds, so that early rejections are taken back as well.
    chain.set_early_rejection(random.Below(2) == 0);
    const Nanos time = chain.Propose(changes, now + now / 50, servers);
    ASSERT_EQ(late.Propose(changes, now + now / 50, servers), time) << i;
    if (time == kNever || random.Below(2) == 0) {
      chain.Reject();
      late.Reject();
    } else {
      chain.Accept();
      late.Accept();
      now = time;
      moved += servers.empty() ? 0 : 1;
    }
    ASSERT_TRUE(fresh.SetStrategy(chain.strategy()).ok());
    ASSERT_EQ(chain.StepTime(), fresh.StepTime()) << i;
    ASSERT_EQ(chain.StepTime(), now) << i;
    const std::vector<TimelineTask> timeline = chain.Timeline();
    ASSERT_EQ(timeline, fresh.Timeline()) << i;
    ASSERT_EQ(QueueFault(graph, devices, timeline), "") << i;
    ASSERT_EQ(chain.IterationTime(), fresh.IterationTime()) << i;
    const Breakdown a = chain.Explain(), b = fresh.Explain();
    ASSERT_EQ(a.busy_ns, b.busy_ns) << i;
    ASSERT_GE(chain.IterationTime(), *std::max_element(a.busy_ns.begin(), a.busy_ns.end())) << i;
    ASSERT_EQ(a.memory_bytes, b.memory_bytes) << i;
    ASSERT_EQ(a.sync_bytes + a.transfer_bytes, b.sync_bytes + b.transfer_bytes) << i;
  }
  if (seed.synchronization == Synchronization::kServers) {
    EXPECT_GT(moved, 2);
  } else {
    EXPECT_EQ(moved, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Machines, ProposalTest,
    testing::Values(ProposalCase{Synchronization::kOwner, 0},
                    ProposalCase{Synchronization::kOwner, 64},
                    ProposalCase{Synchronization::kRing, 0},
                    ProposalCase{Synchronization::kServers, 0},
                    ProposalCase{Synchronization::kServers, 64, false, 1, true},
                    ProposalCase{Synchronization::kOwner, 0, true},
                    ProposalCase{Synchronization::kRing, 64, true},
                    ProposalCase{Synchronization::kServers, 0, true},
                    ProposalCase{Synchronization::kOwner, 0, false, 2},
                    ProposalCase{Synchronization::kRing, 0, true, 1},
                    ProposalCase{Synchronization::kRing, 0, false, 0, false, true},
                    ProposalCase{Synchronization::kRing, 64, true, 1, false, true}));

// Given up at any step: before its blocks were found, before it was placed, and after.
TEST(ProposalPartsTest, TakeBackLeavesAllAsItWas) {
  SimulatorParts p(MicroBatches(), {.nodes = 2, .memory_bytes = 40'000, .servers = 2});
  RandomSource random(4, 0);
  Strategy strategy = DataParallel(p.graph, 4);
  strategy.synchronization = Synchronization::kServers;
  p.Set(strategy);
  const uint32_t group = p.connections.group_of(0);
  int moved_fit = 0;
  for (int i = 0; i < 200; ++i) {
    const StrategyHash hash = p.now.hash();
    const MemoryFit fit = p.loads.fit();
    const Strategy before = p.now.strategy();
    const std::vector<Nanos> compute = p.loads.compute(), sent = p.loads.communication();
    const std::vector<TimelineTask> timeline = p.timeline.Record();
    // Twice the same operator, now and then.
    Change changes[] = {p.DrawChange(&random), p.DrawChange(&random)};
    if (i % 5 == 0) {
      const uint32_t op = changes[0].op;
      changes[1] = {.op = op, .config = SingleDevice(p.graph, 1).ops[op]};
    }
    const ServerChange servers = {.group = group, .servers = {random.Below(2)}};
    p.proposal.Begin(changes, {&servers, 1});
    EXPECT_EQ(p.proposal.fit_before(), fit);
    if (i % 4 > 0) p.proposal.SwapBlocks(changes, {&servers, 1});
    moved_fit += p.loads.fit() == fit ? 0 : 1;
    if (i % 4 > 1) p.proposal.Place();
    EXPECT_EQ(p.proposal.placed(), i % 4 > 1);
    if (i % 4 == 3) {
      p.proposal.Keep();
      SimulatorParts fresh(MicroBatches(), {.nodes = 2, .memory_bytes = 40'000, .servers = 2});
      fresh.Set(p.now.strategy());
      ASSERT_EQ(p.timeline.Record(), fresh.timeline.Record());
      ASSERT_EQ(p.loads.communication(), fresh.loads.communication());
      ASSERT_EQ(p.loads.fit(), fresh.loads.fit());
      continue;
    }
    p.proposal.TakeBack();
    EXPECT_FALSE(p.proposal.pending());
    ASSERT_EQ(p.now.strategy(), before);
    ASSERT_EQ(p.now.hash(), hash);
    ASSERT_EQ(p.loads.fit(), fit);
    ASSERT_EQ(p.loads.compute(), compute);
    ASSERT_EQ(p.loads.communication(), sent);
    ASSERT_EQ(p.timeline.Record(), timeline) << i;
  }
  EXPECT_GT(moved_fit, 0);
}

TEST(QueueFaultTest, FindsATaskThatOvertakes) {
  const OpGraph graph = MixedGraph();
  const Machine machine = FakeMachine({.nodes = 2});
  const FakeCosts costs;
  Simulator simulator(&graph, &machine, &costs);
  ASSERT_TRUE(simulator.SetStrategy(DataParallel(graph, 4)).ok());
  std::vector<TimelineTask> timeline = simulator.Timeline();
  ASSERT_EQ(QueueFault(graph, 4, timeline), "");
  timeline[5].start -= 1;
  EXPECT_NE(QueueFault(graph, 4, timeline), "");
}

TEST(QueueFaultTest, FindsAMicroBatchThatOvertakes) {
  OpGraph graph = MicroBatches();
  const Machine machine = FakeMachine({});
  const FakeCosts costs;
  Simulator simulator(&graph, &machine, &costs);
  ASSERT_TRUE(simulator.SetStrategy(SingleDevice(graph, 0)).ok());
  const std::vector<TimelineTask> timeline = simulator.Timeline();
  ASSERT_EQ(QueueFault(graph, 2, timeline), "");
  // Without its micro-batches the same timeline is out of order.
  for (PlanOp& op : graph.ops) op.micro_batch = 0;
  EXPECT_NE(QueueFault(graph, 2, timeline), "");
}

}  // namespace
}  // namespace soapstone::planner
