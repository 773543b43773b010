#include "scheduler/planner/timeline/loads.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/planner/simulator_fixture.h"

namespace soapstone::planner {
namespace {

void ExpectSameLoads(const Loads& a, const Loads& b) {
  EXPECT_EQ(a.compute(), b.compute());
  EXPECT_EQ(a.communication(), b.communication());
  EXPECT_EQ(a.transfer_bytes(), b.transfer_bytes());
  EXPECT_EQ(a.sync_bytes(), b.sync_bytes());
  EXPECT_EQ(a.fit(), b.fit());
  for (uint32_t d = 0; d < a.devices(); ++d) EXPECT_EQ(a.MemoryOf(d), b.MemoryOf(d));
}

TEST(LoadsTest, WhatIsAddedAndTakenAwayLeavesNoTrace) {
  SimulatorParts p(ZooGraph("lenet5", 4), {.nodes = 2, .memory_bytes = 200'000, .servers = 1});
  RandomSource random(2, 0);
  p.Set(p.DrawStrategy(&random));
  Loads other(&p.connections, p.machine, p.cache.resources(), {});
  other.Clear(0);
  StrategyState drawn(&p.connections, &p.cache);
  drawn.Set(p.DrawStrategy(&random));
  // Another strategy comes, this one comes in another order, the other goes.
  for (uint32_t op = 0; op < p.connections.ops(); ++op) other.AddOp(op, drawn.op(op), 1);
  for (uint32_t e = 0; e < p.connections.edges(); ++e) other.AddEdge(e, drawn.edge(e), 1);
  for (uint32_t g = 0; g < p.connections.groups(); ++g) other.AddSync(drawn.sync(g), 1);
  for (uint32_t g = 0; g < p.connections.groups(); ++g) other.AddSync(p.now.sync(g), 1);
  for (uint32_t e = p.connections.edges(); e-- > 0;) other.AddEdge(e, p.now.edge(e), 1);
  for (uint32_t op = p.connections.ops(); op-- > 0;) other.AddOp(op, p.now.op(op), 1);
  for (uint32_t g = 0; g < p.connections.groups(); ++g) other.AddSync(drawn.sync(g), -1);
  for (uint32_t op = 0; op < p.connections.ops(); ++op) other.AddOp(op, drawn.op(op), -1);
  for (uint32_t e = 0; e < p.connections.edges(); ++e) other.AddEdge(e, drawn.edge(e), -1);
  other.FindFit();
  ExpectSameLoads(p.loads, other);
}

// Of a run's timeline: what each queue serves adds up to its load.
TEST(LoadsTest, QueuesAreBusyForWhatTheyServe) {
  SimulatorParts p(ZooGraph("lenet5"));
  RandomSource random(4, 0);
  for (int turn = 0; turn < 10; ++turn) {
    p.Set(p.DrawStrategy(&random));
    std::vector<Nanos> busy(p.loads.resources(), 0), compute(p.loads.devices(), 0);
    for (const TimelineTask& task : p.timeline.Record()) {
      busy[task.resource] += task.end - task.start;
      const bool computes = task.kind == TaskKind::kForward || task.kind == TaskKind::kBackward;
      if (computes) compute[task.resource] += task.end - task.start;
    }
    EXPECT_EQ(p.loads.compute(), compute);
    int64_t transfer_bytes = 0, sync_bytes = 0;
    for (uint32_t e = 0; e < p.connections.edges(); ++e) transfer_bytes += p.now.edge(e).bytes;
    for (uint32_t g = 0; g < p.connections.groups(); ++g) sync_bytes += p.now.sync(g).bytes;
    EXPECT_EQ(p.loads.transfer_bytes(), transfer_bytes);
    EXPECT_EQ(p.loads.sync_bytes(), sync_bytes);
    for (size_t r = 0; r < busy.size(); ++r) EXPECT_EQ(p.loads.BusyOf(r), busy[r]);
    const Nanos busiest = *std::max_element(busy.begin(), busy.end());
    EXPECT_EQ(p.loads.BusiestQueue(), busiest);
    EXPECT_TRUE(p.loads.Allow(busiest));
    EXPECT_FALSE(p.loads.Allow(busiest - 1));
  }
}

TEST(LoadsTest, OverflowIsOfMemoryAndOfWhatIsSent) {
  SimulatorParts p(ZooGraph("lenet5"));
  p.Set(DataParallel(p.graph, 4));
  ASSERT_EQ(p.loads.fit().overflow, 0);
  const int64_t moved = p.loads.transfer_bytes() + p.loads.sync_bytes();
  ASSERT_GT(moved, 10);
  int64_t held = 0;
  for (uint32_t d = 0; d < p.devices(); ++d) held += p.loads.MemoryOf(d);
  SimulatorParts sends_less(ZooGraph("lenet5"), {.nodes = 2, .servers = 2}, {},
                            {.moved_bytes_max = moved - 10});
  sends_less.Set(DataParallel(sends_less.graph, 4));
  EXPECT_EQ(sends_less.loads.fit().overflow, 10);
  SimulatorParts has_a_byte(ZooGraph("lenet5"), {.nodes = 2, .memory_bytes = 1, .servers = 2});
  has_a_byte.Set(DataParallel(has_a_byte.graph, 4));
  EXPECT_EQ(has_a_byte.loads.fit().overflow, held - p.devices());
}

TEST(LoadsTest, EachStepOfStalenessKeepsACopy) {
  SimulatorParts p(ZooGraph("lenet5"));
  Strategy strategy = SingleDevice(p.graph, 0);
  p.Set(strategy);
  const int64_t before = p.loads.MemoryOf(0);
  int64_t parameters = 0;
  for (uint32_t g = 0; g < p.connections.groups(); ++g) parameters += p.now.HeldBytes(g);
  strategy.staleness = 3;
  p.Set(strategy);
  EXPECT_EQ(p.loads.MemoryOf(0), before + 3 * parameters);
}

}  // namespace
}  // namespace soapstone::planner
