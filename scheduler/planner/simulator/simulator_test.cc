#include "scheduler/planner/simulator/simulator.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/planner/planner_fixture.h"

namespace soapstone::planner {
namespace {

using compute::Linear;
using testing::HasSubstr;

// x [batch, 4] → [batch, 2]: forward 8 ns a sample, backward 16; 32 bytes of weights.
OpGraph OneLinear(int64_t batch) {
  FakeGraph g(batch);
  g.Add(Linear{.outputs = 2, .bias = false}, {g.Input({batch, 4})});
  return g.graph();
}

// → [2, 2] → [2, 3]: forward 16 and 12, backward 32 and 24; between them 16 bytes.
OpGraph TwoLinears() {
  FakeGraph g(2);
  const FakeTensor x = g.Add(Linear{.outputs = 2, .bias = false}, {g.Input({2, 4})});
  g.Add(Linear{.outputs = 3, .bias = false}, {x});
  return g.graph();
}

struct Case {
  OpGraph graph;
  Machine machine = FakeMachine({});
  SimulatorOptions options = {};
  FakeCosts costs = FakeCosts();
};

Nanos StepOf(const Case& c, const Strategy& strategy) {
  Simulator simulator(&c.graph, &c.machine, &c.costs, c.options);
  CHECK(simulator.SetStrategy(strategy).ok());
  return simulator.StepTime();
}

std::vector<TimelineTask> TasksOf(const Case& c, const Strategy& strategy, TaskKind kind) {
  Simulator simulator(&c.graph, &c.machine, &c.costs, c.options);
  CHECK(simulator.SetStrategy(strategy).ok());
  std::vector<TimelineTask> tasks;
  for (const TimelineTask& task : simulator.Timeline()) {
    if (task.kind == kind) tasks.push_back(task);
  }
  return tasks;
}

Strategy On(const OpGraph& graph, const std::vector<uint32_t>& devices) {
  Strategy strategy = SingleDevice(graph, 0);
  for (size_t i = 0; i < devices.size(); ++i) strategy.ops[i].devices = {devices[i]};
  return strategy;
}

// Forward 0–16–28, backward –52–84, then both applications (72 and 96 ns) in turn.
TEST(SimulatorTest, OneDeviceIsNeverIdle) {
  const Case c = {TwoLinears()};
  EXPECT_EQ(StepOf(c, SingleDevice(c.graph, 0)), 84 + 72 + 96);
}

// 16; transfer 16 + 10; 12, 24; gradient 16 + 10; 32; application 96.
TEST(SimulatorTest, OperatorsOnTwoDevices) {
  const Case c = {TwoLinears()};
  EXPECT_EQ(StepOf(c, On(c.graph, {0, 1})), 16 + 26 + 36 + 26 + 32 + 96);
}

// Parts take 8 + 16; push 32 + 10; 3·32 + 2·32 to add and apply; pull 32 + 10.
TEST(SimulatorTest, DataParallelismSynchronizesAtTheFirstDevice) {
  const Case c = {OneLinear(2)};
  EXPECT_EQ(StepOf(c, DataParallel(c.graph, 2)), 24 + 42 + 160 + 42);
}

// Two devices send each other 2·(1/2)·32 bytes in two rounds.
TEST(SimulatorTest, RingAllReduce) {
  const Case c = {OneLinear(2)};
  Strategy strategy = DataParallel(c.graph, 2);
  strategy.synchronization = Synchronization::kRing;
  EXPECT_EQ(StepOf(c, strategy), 24 + 42 + 10 + 96);
}

// As workers run it: each keeps a half, to which the other pushes 16 bytes while its own gradient
// is there: 3·16 + 2·16 to add and apply, and 16 back.
TEST(SimulatorTest, RingByRanges) {
  Case c = {OneLinear(2), FakeMachine({}), {.optimizer_floats = 2, .rings_by_ranges = true}};
  Strategy strategy = DataParallel(c.graph, 2);
  strategy.synchronization = Synchronization::kRing;
  EXPECT_EQ(StepOf(c, strategy), 24 + 26 + 80 + 26);
  // Each has the state of its half alone: two floats for each four bytes of 32.
  const auto kept = [&] {
    Simulator simulator(&c.graph, &c.machine, &c.costs, c.options);
    CHECK(simulator.SetStrategy(strategy).ok());
    return simulator.CountedBytes(0, 1);
  };
  const int64_t halves = kept();
  c.options.rings_by_ranges = false;
  EXPECT_EQ(kept(), halves + 2 * 16);
}

// Three holders of eight elements keep two, three and three. What each sends of gradients and gets
// of values crosses no more links than a ring's hops would: 2·(n − 1) times the piece in all.
TEST(SimulatorTest, RangesOfThreeAddUp) {
  const Case c = {OneLinear(3), FakeMachine({.devices_per_node = 3}), {.rings_by_ranges = true}};
  Strategy strategy = DataParallel(c.graph, 3);
  strategy.synchronization = Synchronization::kRing;
  Simulator simulator(&c.graph, &c.machine, &c.costs, c.options);
  ASSERT_TRUE(simulator.SetStrategy(strategy).ok());
  EXPECT_EQ(simulator.Explain().sync_bytes, 2 * 2 * 32);
}

// Both pushes pass their own NIC at 24–56, but the server's in turn: at 34–66 and 66–98. Applied
// at 76–108 and 108–140. The pulls leave at 140–172–204, and the second arrives at 224.
TEST(SimulatorTest, PushesMeetAtTheServersNic) {
  const Case c = {OneLinear(2), FakeMachine({.nodes = 2, .devices_per_node = 1, .servers = 1})};
  Strategy strategy = DataParallel(c.graph, 2);
  strategy.synchronization = Synchronization::kServers;
  EXPECT_EQ(StepOf(c, strategy), 224);
}

// Twice the servers, each with a half: 24–40, at the server 34–50–66, arrived 60, 76, applied
// 60–76–92, pulls 92–108–124, arrived 144.
TEST(SimulatorTest, TwoServersShareEveryPiece) {
  const Case c = {OneLinear(2), FakeMachine({.nodes = 2, .devices_per_node = 1, .servers = 2})};
  Strategy strategy = DataParallel(c.graph, 2);
  strategy.synchronization = Synchronization::kServers;
  // A worker's NIC passes two halves one after the other, both ways: 16 later each way.
  const Nanos step = StepOf(c, strategy);
  EXPECT_GE(step, 144);
  EXPECT_LE(step, 144 + 32);
}

// The second hop starts a latency after the first: 16 + 2·10, not 2·(16 + 10).
TEST(SimulatorTest, MessagesStreamThroughTwoHops) {
  const Case c = {TwoLinears(), FakeMachine({.nodes = 2, .devices_per_node = 1})};
  EXPECT_EQ(StepOf(c, On(c.graph, {0, 1})), 16 + 36 + 36 + 36 + 32 + 96);
}

// One producer, a consumer twice: two transfers of 16 bytes, one after the other on the one link.
TEST(SimulatorTest, TransfersTakeTurnsOnALink) {
  FakeGraph g(2);
  const FakeTensor x = g.Add(Linear{.outputs = 2, .bias = false}, {g.Input({2, 4})});
  g.Add(Linear{.outputs = 3, .bias = false}, {x});
  g.Add(Linear{.outputs = 3, .bias = false}, {x});
  const Case c = {g.graph()};
  const auto transfers = TasksOf(c, On(c.graph, {0, 1, 1}), TaskKind::kTransfer);
  ASSERT_EQ(transfers.size(), 2u);
  EXPECT_EQ(transfers[0].start, 16);
  EXPECT_EQ(transfers[1].ready, 16);
  EXPECT_EQ(transfers[1].start, 32);
  // Consumer 1: 42–54–78. Consumer 2, ready at 58, then runs 78–90; the application of 1, ready at
  // 78, goes before the backward pass of 2, ready at 90: 90–162–186. Gradient 212, –244, 96.
  EXPECT_EQ(StepOf(c, On(c.graph, {0, 1, 1})), 244 + 96);
}

// Two parts of a consumer on one device read the same: one transfer, one gradient.
TEST(SimulatorTest, PartsOnADeviceShareATransfer) {
  const Case c = {TwoLinears(), FakeMachine({.devices_per_node = 3})};
  Strategy strategy = On(c.graph, {0, 1});
  strategy.ops[1] = {.degrees = {1, 2, 1}, .devices = {1, 1}};
  const auto busy = [&] {
    const TimelineTask task = TasksOf(c, strategy, TaskKind::kTransfer).at(0);
    return task.end - task.start;
  };
  EXPECT_EQ(busy(), 16);
  // Two parts of the producer, of 8 bytes each: halves go to who needs them, in one flow.
  strategy.ops[0] = {.degrees = {2, 1, 1}, .devices = {0, 0}};
  EXPECT_EQ(busy(), 16);
  strategy.ops[1] = {.degrees = {2, 1, 1}, .devices = {1, 2}};
  EXPECT_EQ(busy(), 8);
}

// Three samples on two devices: one and two. The second part takes 16 + 32.
TEST(SimulatorTest, SplitsMayBeUneven) {
  const Case c = {OneLinear(3)};
  const Nanos sync = 42 + 160 + 42;
  EXPECT_EQ(StepOf(c, DataParallel(c.graph, 2)), 48 + sync);
  // The two samples on the owner: its gradient is later, the other's push earlier: 24 + 42.
  Strategy other = DataParallel(c.graph, 2);
  other.ops[0].cuts = {{2}, {}, {}};
  EXPECT_EQ(StepOf(c, other), 66 + 160 + 42);
}

// Soybean's example (Wang et al. 2018): 64 samples, 784–512–10 on two devices.
OpGraph Mlp() {
  FakeGraph g(64);
  const FakeTensor x = g.Add(Linear{.outputs = 512, .bias = false}, {g.Input({64, 784})});
  g.Add(Linear{.outputs = 10, .bias = false}, {x});
  return g.graph();
}

TEST(SimulatorTest, MlpMovesWhatItIsKnownToMove) {
  const Case c = {Mlp()};
  Simulator simulator(&c.graph, &c.machine, &c.costs);
  ASSERT_TRUE(simulator.SetStrategy(DataParallel(c.graph, 2)).ok());
  EXPECT_EQ(simulator.Explain().sync_bytes, 813'056 * 4);
  EXPECT_EQ(simulator.Explain().transfer_bytes, 0);
  // Halves of the 784 inputs leave partial sums of 64 × 512, which both halves of the outputs read.
  Strategy reduction = DataParallel(c.graph, 2);
  reduction.ops[0].degrees = {1, 1, 2};
  reduction.ops[1].degrees = {1, 2, 1};
  ASSERT_TRUE(simulator.SetStrategy(reduction).ok());
  EXPECT_EQ(simulator.Explain().sync_bytes, 0);
  EXPECT_EQ(simulator.Explain().transfer_bytes, 131'072 * 4);
}

TEST(SimulatorTest, WithoutStalenessIterationsFollowOneAnother) {
  const Case c = {OneLinear(2)};
  Simulator simulator(&c.graph, &c.machine, &c.costs);
  Strategy strategy = DataParallel(c.graph, 2);
  ASSERT_TRUE(simulator.SetStrategy(strategy).ok());
  EXPECT_EQ(simulator.IterationTime(), 268);
  // The owner's 24 + 160 are what remains when the transfers are hidden.
  for (uint32_t s : {1, 2, 3}) {
    strategy.staleness = s;
    ASSERT_TRUE(simulator.SetStrategy(strategy).ok());
    EXPECT_NEAR(static_cast<double>(simulator.IterationTime()), 184, 3) << s;
  }
}

TEST(SimulatorTest, StalenessIsNoUseToOneDevice) {
  const Case c = {TwoLinears()};
  Simulator simulator(&c.graph, &c.machine, &c.costs);
  Strategy strategy = SingleDevice(c.graph, 0);
  for (uint32_t s : {0, 1, 4}) {
    strategy.staleness = s;
    ASSERT_TRUE(simulator.SetStrategy(strategy).ok());
    EXPECT_EQ(simulator.IterationTime(), 252) << s;
  }
}

// A transfer of 1,600 bytes, ready at 1600, and one of 16 behind it, ready at 1616.
TEST(SimulatorTest, SegmentsLetASmallMessagePass) {
  FakeGraph g(2);
  const FakeTensor a = g.Add(Linear{.outputs = 200, .bias = false}, {g.Input({2, 4})});
  const FakeTensor b = g.Add(Linear{.outputs = 2, .bias = false}, {g.Input({2, 4})});
  g.Add(Linear{.outputs = 1, .bias = false}, {a});
  g.Add(Linear{.outputs = 1, .bias = false}, {b});
  Case c = {g.graph()};
  const Strategy strategy = On(c.graph, {0, 0, 1, 1});
  EXPECT_EQ(TasksOf(c, strategy, TaskKind::kTransfer).back().start, 3200);
  c.options.segment_bytes = 160;
  const auto segments = TasksOf(c, strategy, TaskKind::kTransfer);
  ASSERT_EQ(segments.size(), 11u);
  EXPECT_EQ(segments[1].of, 1u);
  EXPECT_EQ(segments[1].start, 1760);
  EXPECT_EQ(segments.back().end, 3216);  // the large one's last segment
}

// Messages of three devices share their node's NIC: each ends within n − 1 segments of where it
// would if the NIC served all at once, at equal shares.
TEST(SimulatorTest, SegmentsAreNearlyFair) {
  constexpr int64_t kSegment = 64;
  FakeGraph g(2);
  for (int64_t width : {60, 100, 150}) {
    const FakeTensor x = g.Add(Linear{.outputs = width, .bias = false}, {g.Input({2, 1})});
    g.Add(Linear{.outputs = 1, .bias = false}, {x});
  }
  Case c = {g.graph(), FakeMachine({.nodes = 2, .devices_per_node = 3})};
  c.options.segment_bytes = kSegment;
  const Strategy strategy = On(c.graph, {0, 3, 1, 4, 2, 5});
  std::vector<double> left, ready, ideal(3, 0);
  std::vector<Nanos> ends(3, 0);
  const uint32_t nic = 6 + 12;  // after six devices and twelve pairs
  for (const TimelineTask& task : TasksOf(c, strategy, TaskKind::kTransfer)) {
    if (task.resource == nic) ends[task.of] = std::max(ends[task.of], task.end);
  }
  for (int64_t width : {60, 100, 150}) {
    left.push_back(static_cast<double>(8 * width));
    ready.push_back(static_cast<double>(2 * width));
  }
  for (double now = 0; now < 5000; now += 0.25) {
    int active = 0;
    for (int i = 0; i < 3; ++i) active += ready[i] <= now && left[i] > 0 ? 1 : 0;
    for (int i = 0; i < 3; ++i) {
      if (ready[i] > now || left[i] <= 0) continue;
      left[i] -= 0.25 / active;
      if (left[i] <= 0) ideal[i] = now;
    }
  }
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(static_cast<double>(ends[i]), ideal[i], 2 * kSegment + 1);
}

// Two halves of an lstm's units pass each other their 2·3·4 bytes of each step but the last.
TEST(SimulatorTest, SplitLstmsExchangeEveryStep) {
  FakeGraph g(2);
  g.Add(compute::Lstm{.hidden = 6}, {g.Input({2, 5, 3})});
  const Case c = {g.graph()};
  Strategy strategy = SingleDevice(c.graph, 0);
  const Nanos whole = TasksOf(c, strategy, TaskKind::kForward)[0].end;
  strategy.ops[0] = {.degrees = {1, 1, 2, 1}, .devices = {0, 1}};
  EXPECT_EQ(TasksOf(c, strategy, TaskKind::kForward)[0].end, whole / 2 + 4 * (24 + 10));
  strategy.ops[0].devices = {0, 0};
  EXPECT_EQ(TasksOf(c, strategy, TaskKind::kForward)[0].end, whole / 2);
}

TEST(SimulatorTest, WhatAStepMovesMayBeBounded) {
  Case c = {TwoLinears(), FakeMachine({}), {}};
  Simulator free(&c.graph, &c.machine, &c.costs);
  ASSERT_TRUE(free.SetStrategy(On(c.graph, {0, 1})).ok());
  const int64_t moved = free.Explain().transfer_bytes;
  ASSERT_GT(moved, 0);
  EXPECT_EQ(free.Overflow(), 0);
  c.options.moved_bytes_max = moved - 10;
  Simulator simulator(&c.graph, &c.machine, &c.costs, c.options);
  ASSERT_TRUE(simulator.SetStrategy(On(c.graph, {0, 1})).ok());
  EXPECT_EQ(simulator.Overflow(), 10);
  // Less overflow counts for more than any time.
  const Change change = {1, {.degrees = {1, 1, 1}, .devices = {0}}};
  EXPECT_NE(simulator.Propose({&change, 1}, 0), kNever);
  EXPECT_EQ(simulator.Overflow(), 0);
  simulator.Accept();
  const Change back = {1, {.degrees = {1, 1, 1}, .devices = {1}}};
  EXPECT_EQ(simulator.Propose({&back, 1}, kNever - 1), kNever);
  simulator.Reject();
}

TEST(SimulatorTest, MemoryIsCounted) {
  const Case c = {TwoLinears(), FakeMachine({.memory_bytes = 100}), {.optimizer_floats = 2}};
  Simulator simulator(&c.graph, &c.machine, &c.costs, c.options);
  ASSERT_TRUE(simulator.SetStrategy(On(c.graph, {0, 1})).ok());
  // Outputs of 16 and 24 bytes, 16 received; 32 and 24 bytes of weights, four times.
  EXPECT_THAT(simulator.Explain().memory_bytes, testing::ElementsAre(16 + 128, 24 + 16 + 96));
  EXPECT_EQ(simulator.Overflow(), 44 + 36);
  // Both on one device would overflow by more.
  const Change change = {1, {.degrees = {1, 1, 1}, .devices = {0}}};
  EXPECT_EQ(simulator.Propose({&change, 1}, kNever), kNever);
  simulator.Reject();
}

TEST(SimulatorTest, JitterHasTheMeanOfTheStepWhereNothingWaits) {
  const Case c = {TwoLinears(), FakeMachine({}), {}, FakeCosts(1000)};
  Simulator simulator(&c.graph, &c.machine, &c.costs);
  ASSERT_TRUE(simulator.SetStrategy(SingleDevice(c.graph, 0)).ok());
  const Nanos still = simulator.StepTime();
  std::vector<Nanos> times = simulator.SampleStepTimes({.sigma = 0.2, .samples = 2000, .seed = 3});
  double mean = 0;
  for (const Nanos time : times) mean += static_cast<double>(time) / 2000;
  // Four parts of 12 to 32 µs: the mean's standard error is 0.25 %.
  EXPECT_NEAR(mean, static_cast<double>(still), 0.01 * static_cast<double>(still));
  EXPECT_EQ(simulator.Simulate(), still);
  EXPECT_EQ(simulator.SampleStepTimes({.sigma = 0.2, .samples = 2000, .seed = 3}), times);
  EXPECT_EQ(simulator.SampleStepTimes({.sigma = 0, .samples = 1})[0], still);
}

// Where devices wait for one another, the slowest one counts.
TEST(SimulatorTest, JitterCostsMoreThanItsMeanWhereDevicesWait) {
  const Case c = {TwoLinears(), FakeMachine({}), {}, FakeCosts(1000)};
  Simulator simulator(&c.graph, &c.machine, &c.costs);
  ASSERT_TRUE(simulator.SetStrategy(DataParallel(c.graph, 2)).ok());
  double mean = 0;
  for (const Nanos time : simulator.SampleStepTimes({.sigma = 0.2, .samples = 500})) {
    mean += static_cast<double>(time) / 500;
  }
  EXPECT_GT(mean, 1.02 * static_cast<double>(simulator.StepTime()));
}

TEST(SimulatorTest, WrongStrategiesAreNamed) {
  const Case c = {TwoLinears()};
  Simulator simulator(&c.graph, &c.machine, &c.costs);
  Strategy strategy = SingleDevice(c.graph, 7);
  EXPECT_THAT(std::string(simulator.SetStrategy(strategy).message()),
              HasSubstr("there is no device 7 among 2"));
  strategy = SingleDevice(c.graph, 0);
  strategy.ops[1].degrees = {5, 1, 1};
  EXPECT_THAT(std::string(simulator.SetStrategy(strategy).message()),
              HasSubstr("dimension n can be split in 1 to 2 parts, not 5"));
  strategy = SingleDevice(c.graph, 0);
  strategy.synchronization = Synchronization::kServers;
  EXPECT_THAT(std::string(simulator.SetStrategy(strategy).message()), HasSubstr("no servers"));
}

}  // namespace
}  // namespace soapstone::planner
