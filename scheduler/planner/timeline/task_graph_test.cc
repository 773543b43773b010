#include "scheduler/planner/timeline/task_graph.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/planner/simulator_fixture.h"

namespace soapstone::planner {
namespace {

// How often each slot is set free in a run, followed by routes and flows, as Timeline::Run does.
class Arrivals {
 public:
  explicit Arrivals(const SimulatorParts& p) : p_(p), count_(p.tasks.slots(), 0) {
    const TaskGraph& graph = p.tasks;
    for (uint32_t op = 0; op < p.connections.ops(); ++op) {
      for (uint32_t part = 0; part < graph.parts(op); ++part) FollowPart(op, part);
    }
    for (uint32_t e = 0; e < p.connections.edges(); ++e) {
      const Connection& connection = p.connections.edge(e);
      FollowTasks(p.now.edge(e).forward, graph.transfer_base(e), graph.forward_base(connection.to));
      FollowTasks(p.now.edge(e).backward, graph.gradient_base(e),
                  graph.backward_base(connection.from));
    }
    for (uint32_t g = 0; g < p.connections.groups(); ++g) {
      FollowTasks(p.now.sync(g).tasks, graph.sync_base(g), graph.sync_base(g));
    }
  }
  const std::vector<uint32_t>& count() const { return count_; }

 private:
  void Follow(const Route& route, uint32_t part) {
    if (route.lists == nullptr) {
      ++count_[route.parts + part];
      return;
    }
    for (uint32_t item : route.lists->of(part)) {
      ++count_[((item & kIsTask) == 0 ? route.parts : route.tasks) + (item & ~kIsTask)];
    }
  }
  void FollowPart(uint32_t op, uint32_t part) {
    const std::vector<uint32_t>& out = p_.connections.out().begin;
    for (uint32_t i = out[op]; i < out[op + 1]; ++i) Follow(p_.tasks.route_out(i), part);
    const std::vector<uint32_t>& in = p_.connections.in().begin;
    for (uint32_t i = in[op]; i < in[op + 1]; ++i) Follow(p_.tasks.route_in(i), part);
    const auto& task = p_.tasks.tasks()[p_.tasks.forward_base(op) + part];
    if (task.starts()) ++count_[p_.tasks.backward_base(op) + part];
    const uint32_t group = p_.connections.group_of(op);
    if (group == ConnectionGraph::kNoGroup) return;
    for (uint32_t item : p_.now.sync(group).device_to.of(task.device)) {
      ++count_[p_.tasks.sync_base(group) + item];
    }
  }
  // A segment that another comes before waits for none; it is not free for that.
  void FollowTasks(const CommTasks& tasks, uint32_t base, uint32_t done_base) {
    const auto first_join = static_cast<uint32_t>(base + tasks.tasks.size());
    for (const Flow& flow : tasks.flows) {
      for (uint32_t i = flow.done_begin; i < flow.done_end; ++i) {
        const bool joins = (tasks.done[i] & kIsJoin) != 0;
        ++count_[(joins ? first_join : done_base) + (tasks.done[i] & ~kIsJoin)];
      }
    }
    for (const JoinNode& join : tasks.joins) {
      for (uint32_t i = join.done_begin; i < join.done_end; ++i) {
        ++count_[done_base + tasks.done[i]];
      }
    }
  }

  const SimulatorParts& p_;
  std::vector<uint32_t> count_;
};

void ExpectWaitsAreArrivals(const SimulatorParts& p) {
  const Arrivals arrivals(p);
  const std::vector<TaskState>& states = p.tasks.states();
  const auto expect = [&](uint32_t base, size_t size) {
    for (uint32_t slot = base; slot < base + size; ++slot) {
      ASSERT_EQ(states[slot].waits, arrivals.count()[slot]) << slot;
      ASSERT_EQ(states[slot], (TaskState{0, states[slot].waits, states[slot].waits}));
    }
  };
  for (uint32_t op = 0; op < p.connections.ops(); ++op) {
    expect(p.tasks.forward_base(op), p.tasks.parts(op));
    expect(p.tasks.backward_base(op), p.tasks.parts(op));
  }
  for (uint32_t e = 0; e < p.connections.edges(); ++e) {
    expect(p.tasks.transfer_base(e), p.now.edge(e).forward.slots());
    expect(p.tasks.gradient_base(e), p.now.edge(e).backward.slots());
  }
  for (uint32_t g = 0; g < p.connections.groups(); ++g) {
    expect(p.tasks.sync_base(g), p.now.sync(g).tasks.slots());
  }
}

void ExpectBlocksAscend(const SimulatorParts& p) {
  size_t end = 0, tasks = 0;
  const auto expect = [&](uint32_t base, size_t slots, size_t of_them) {
    ASSERT_GE(base, end);
    end = base + slots;
    tasks += of_them;
  };
  for (uint32_t op = 0; op < p.connections.ops(); ++op) {
    expect(p.tasks.forward_base(op), p.tasks.parts(op), p.tasks.parts(op));
  }
  for (uint32_t e = 0; e < p.connections.edges(); ++e) {
    const CommTasks& block = p.now.edge(e).forward;
    expect(p.tasks.transfer_base(e), block.slots(), block.tasks.size());
  }
  for (uint32_t op = 0; op < p.connections.ops(); ++op) {
    expect(p.tasks.backward_base(op), p.tasks.parts(op), p.tasks.parts(op));
  }
  for (uint32_t e = 0; e < p.connections.edges(); ++e) {
    const CommTasks& block = p.now.edge(e).backward;
    expect(p.tasks.gradient_base(e), block.slots(), block.tasks.size());
  }
  for (uint32_t g = 0; g < p.connections.groups(); ++g) {
    const CommTasks& block = p.now.sync(g).tasks;
    expect(p.tasks.sync_base(g), block.slots(), block.tasks.size());
  }
  EXPECT_LE(end, p.tasks.slots());
  EXPECT_EQ(p.tasks.task_count(), tasks);
}

TEST(TaskGraphTest, AChainOfPlacingsKeepsTheInvariants) {
  for (const char* model : {"lenet5", "gnmt:tiny"}) {
    SimulatorParts p(ZooGraph(model, 2));
    TouchedBlocks touched(&p.connections);
    RandomSource random(9, 0);
    for (const Synchronization way :
         {Synchronization::kOwner, Synchronization::kRing, Synchronization::kServers}) {
      Strategy strategy = SingleDevice(p.graph, 0);
      strategy.synchronization = way;
      p.Set(strategy);
      for (int i = 0; i < 30; ++i) {
        const Change change = p.DrawChange(&random);
        touched.Collect({&change, 1}, {});
        p.now.SetOp(change.op, change.config);
        for (uint32_t edge : touched.edges()) p.now.UpdateEdge(edge);
        for (uint32_t group : touched.groups()) p.now.UpdateSync(group);
        p.tasks.Place(touched, p.now);
        ExpectWaitsAreArrivals(p);
        ExpectBlocksAscend(p);
      }
    }
  }
}

// Slots stay where they are while blocks fit into their room.
TEST(TaskGraphTest, ABlockMovesWhenItOutgrowsItsRoom) {
  SimulatorParts p(ZooGraph("lenet5"), {.nodes = 4, .servers = 2});
  TouchedBlocks touched(&p.connections);
  p.Set(DataParallel(p.graph, 2));
  const size_t slots = p.tasks.slots();
  const uint32_t last = p.tasks.sync_base(p.connections.groups() - 1);
  const auto set_first = [&](const OpConfig& config) {
    const Change change = {.op = 0, .config = config};
    touched.Collect({&change, 1}, {});
    p.now.SetOp(0, config);
    for (uint32_t edge : touched.edges()) p.now.UpdateEdge(edge);
    for (uint32_t group : touched.groups()) p.now.UpdateSync(group);
    p.tasks.Place(touched, p.now);
  };
  set_first(SingleDevice(p.graph, 0).ops[0]);
  set_first(DataParallelConfig(p.graph.ops[0], 2));
  ExpectWaitsAreArrivals(p);
  const size_t afterwards = p.tasks.slots();
  const uint32_t last_now = p.tasks.sync_base(p.connections.groups() - 1);
  set_first(DataParallelConfig(p.graph.ops[0], 8));
  ExpectWaitsAreArrivals(p);
  ExpectBlocksAscend(p);
  EXPECT_GE(afterwards, slots);
  EXPECT_GE(last_now, last);
  EXPECT_GT(p.tasks.slots(), afterwards);
}

TEST(TaskGraphTest, BusyTimesComeBackWithTheOperators) {
  SimulatorParts p(ZooGraph("lenet5"));
  p.Set(DataParallel(p.graph, 4));
  const Nanos step = p.timeline.Step();
  p.tasks.SetBusy(BlockKind::kBackward, 0, 1, 10 * step);
  EXPECT_GT(p.timeline.Step(), 10 * step);
  p.tasks.PlaceOps(p.now);
  EXPECT_EQ(p.timeline.Step(), step);
}

}  // namespace
}  // namespace soapstone::planner
