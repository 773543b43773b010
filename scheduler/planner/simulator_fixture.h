// SimulatorParts are all parts of a simulator, wired as Simulator wires them, for the tests of each
// part. ZooGraph makes small graphs of all kinds of blocks.
#pragma once

#include <string>
#include <utility>

#include "glog/logging.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/planner_fixture.h"
#include "scheduler/planner/search/space.h"
#include "scheduler/planner/simulator/simulator.h"

namespace soapstone::planner {

inline OpGraph ZooGraph(const std::string& model, int64_t micro_batches = 1) {
  auto built = models::BuildModel(model, models::ModelInput{});
  CHECK(built.ok()) << built.status();
  auto graph = MakeOpGraph(*built, {.batch = 8, .time_chunk = 3, .micro_batches = micro_batches});
  CHECK(graph.ok()) << graph.status();
  return *std::move(graph);
}

struct SimulatorParts {
  explicit SimulatorParts(OpGraph of, const FakeMachineSpec& spec = {.nodes = 2, .servers = 2},
                          BlockCache::Options kept = {}, Loads::Options options = {})
      : graph(std::move(of)),
        machine(FakeMachine(spec)),
        connections(&graph),
        cache(&connections, &machine, &costs, kept),
        now(&connections, &cache),
        loads(&connections, machine, cache.resources(), options),
        tasks(&connections),
        bounds(&connections, loads.devices()),
        timeline(&now, &tasks, &loads, &bounds),
        proposal(&now, &loads, &tasks),
        space(&graph, &machine) {}
  SimulatorParts(const SimulatorParts&) = delete;
  SimulatorParts& operator=(const SimulatorParts&) = delete;

  void Set(const Strategy& strategy) {
    now.Set(strategy);
    SetLoads();
    tasks.PlaceAll(now);
  }
  void SetLoads() {
    loads.Clear(now.staleness());
    for (uint32_t op = 0; op < connections.ops(); ++op) loads.AddOp(op, now.op(op), 1);
    for (uint32_t e = 0; e < connections.edges(); ++e) loads.AddEdge(e, now.edge(e), 1);
    for (uint32_t g = 0; g < connections.groups(); ++g) loads.AddSync(now.sync(g), 1);
    loads.FindFit();
  }
  uint32_t devices() const { return static_cast<uint32_t>(machine.devices().size()); }
  // Another configuration of some operator.
  Change DrawChange(RandomSource* random) const {
    Change change = {.op = random->Below(connections.ops())};
    space.DrawBlock(change.op, random, &change.config);
    return change;
  }
  Strategy DrawStrategy(RandomSource* random) const {
    Strategy strategy = SingleDevice(graph, 0);
    strategy.synchronization = static_cast<Synchronization>(random->Below(3));
    for (uint32_t op = 0; op < connections.ops(); ++op) {
      space.DrawBlock(op, random, &strategy.ops[op]);
    }
    return strategy;
  }

  const OpGraph graph;
  const Machine machine;
  const FakeCosts costs = FakeCosts(0.05);
  const ConnectionGraph connections;
  BlockCache cache;
  StrategyState now;
  Loads loads;
  TaskGraph tasks;
  Bounds bounds;
  Timeline timeline;
  Proposal proposal;
  const Space space;
};

}  // namespace soapstone::planner
