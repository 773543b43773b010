#include "scheduler/planner/searchers/branch_and_bound.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/cost/roofline_cost.h"
#include "scheduler/planner/planner_fixture.h"
#include "scheduler/planner/searchers/domain_bounds.h"
#include "strategy/machine_text.h"
#include "strategy/strategy_text.h"

namespace soapstone::planner {
namespace {

using compute::Linear;
using testing::HasSubstr;

// The shortest step of all strategies of the space that fit.
Nanos LeastOfAll(const Space& space, const CostModel& costs) {
  Simulator simulator(&space.graph(), &space.machine(), &costs);
  std::vector<std::vector<OpConfig>> configs;
  for (uint32_t op = 0; op < space.graph().ops.size(); ++op) configs.push_back(space.Configs(op));
  Nanos least = kNever;
  for (const Synchronization way : SynchronizationsOf(space.machine())) {
    std::vector<uint32_t> choice(configs.size(), 0);
    size_t i = 0;
    while (i < choice.size()) {
      Strategy strategy = {.synchronization = way};
      for (size_t op = 0; op < choice.size(); ++op) {
        strategy.ops.push_back(configs[op][choice[op]]);
      }
      CHECK(simulator.SetStrategy(strategy).ok());
      if (simulator.Overflow() == 0) least = std::min(least, simulator.StepTime());
      for (i = 0; i < choice.size() && ++choice[i] == configs[i].size(); ++i) choice[i] = 0;
    }
  }
  return least;
}

void ExpectTheOptimum(const OpGraph& graph, const Machine& machine, double ns_per_place) {
  const FakeCosts costs(ns_per_place);
  const Space space(&graph, &machine);
  // The tree is searched from a poor beginning: all on one device or apart, a few proposals.
  Strategy seed = SingleDevice(graph, 0);
  if (machine.kinds()[0].memory_bytes < 1'000'000) seed.ops.back().devices = {1};
  const auto result =
      BranchAndBoundSearcher().Search({.space = &space, .costs = &costs, .seeds = {&seed, 1}},
                                      {.proposals = 20'000, .descend = false});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->proved);
  const Nanos least = LeastOfAll(space, costs);
  // The walk may end outside of the space, and better.
  EXPECT_LE(result->found.step_ns, least);
  if (result->note.empty()) {
    EXPECT_EQ(result->found.step_ns, least);
  } else {
    EXPECT_EQ(result->note, absl::StrFormat("the best of the space takes %.6f ms",
                                            static_cast<double>(least) / 1e6));
  }
}

OpGraph Chain(int64_t batch, std::vector<int64_t> sides) {
  FakeGraph g(batch);
  FakeTensor x = g.Input({batch, sides[0]});
  for (size_t i = 1; i < sides.size(); ++i) x = g.Add(Linear{.outputs = sides[i]}, {x});
  return g.graph();
}

TEST(BranchAndBoundTest, EqualsEnumerationOnChains) {
  for (const double ns : {0.01, 0.3, 3.0}) {
    ExpectTheOptimum(Chain(8, {16, 24, 8, 40}), FakeMachine({}), ns);
    ExpectTheOptimum(Chain(6, {300, 20, 5, 7}), FakeMachine({.servers = 1}), ns);
    ExpectTheOptimum(Chain(16, {12, 60, 20}), FakeMachine({.devices_per_node = 4}), ns);
  }
}

TEST(BranchAndBoundTest, EqualsEnumerationAcrossNodes) {
  for (const double ns : {0.01, 0.3, 3.0}) {
    ExpectTheOptimum(Chain(16, {12, 60, 20}),
                     FakeMachine({.nodes = 2, .bytes_per_ns = 0.5, .servers = 1}), ns);
  }
}

TEST(BranchAndBoundTest, EqualsEnumerationOnForksAndSharedWeights) {
  for (const double ns : {0.01, 0.3, 3.0}) {
    FakeGraph g(4);
    const FakeTensor x = g.Add(Linear{.outputs = 16}, {g.Input({4, 32})});
    const FakeTensor left = g.Add(Linear{.outputs = 24}, {x});
    const FakeTensor right = g.Add(Linear{.outputs = 24}, {x});
    g.Add(compute::Add{}, {left, right});
    ExpectTheOptimum(g.graph(), FakeMachine({}), ns);
    FakeGraph shared(8);
    FakeTensor y = shared.Add(Linear{.outputs = 24}, {shared.Input({8, 24})}, 1);
    y = shared.Add(Linear{.outputs = 24}, {y}, 1);
    shared.Add(Linear{.outputs = 24}, {y}, 1);
    ExpectTheOptimum(shared.graph(), FakeMachine({.servers = 1}), ns);
  }
}

TEST(BranchAndBoundTest, TheOptimumFitsIntoMemory) {
  FakeGraph g(8);
  const FakeTensor x = g.Add(Linear{.outputs = 64, .bias = false}, {g.Input({8, 64})});
  g.Add(Linear{.outputs = 64, .bias = false}, {x});
  ExpectTheOptimum(g.graph(), FakeMachine({.memory_bytes = 40'000}), 3);
}

TEST(BranchAndBoundTest, ABudgetThatEndsBeforeTheTreeProvesNothing) {
  const OpGraph graph = Chain(16, {12, 60, 20, 50});
  const Machine machine = FakeMachine({.devices_per_node = 4});
  const FakeCosts costs(0.3);
  const Space space(&graph, &machine);
  const auto result =
      BranchAndBoundSearcher().Search({.space = &space, .costs = &costs}, {.proposals = 3});
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->proved);
  EXPECT_THAT(result->note, HasSubstr("not proved"));
}

constexpr char kNode[] = R"(name: "node"
kinds { name: "p100" tflops: 6.4 memory_gbytes_per_s: 550 memory_gib: 16 launch_us: 5 }
nodes {
  name: "node" count: 1 devices: 4 kind: "p100"
  mesh { gbytes_per_s: 20 latency_us: 2 }
  host { gbytes_per_s: 12 latency_us: 5 }
  servers: 1 server_apply_gbytes_per_s: 10
})";

OpGraph Zoo(const std::string& model, int64_t steps) {
  auto graph = models::BuildModel(model, models::ModelInput{.steps = steps});
  CHECK(graph.ok()) << graph.status();
  auto ops = MakeOpGraph(*graph, {.batch = 256, .time_chunk = steps > 0 ? 1 : 0});
  CHECK(ops.ok()) << ops.status();
  return *std::move(ops);
}

// Bounds must hold for each strategy of the domains: a random one, in random domains.
void ExpectBoundsToHold(const OpGraph& graph, const Machine& machine, const CostModel& costs,
                        int rounds, const SimulatorOptions& options = {}) {
  const Space space(&graph, &machine);
  const SearchOptions search = {.simulator = options};
  Simulator simulator(&graph, &machine, &costs, options);
  for (const Synchronization way : SynchronizationsOf(machine)) {
    PartialBounds bounds(&space, costs, way, search);
    RandomSource random(1, 0);
    double closest = 0;
    for (int round = 0; round < rounds; ++round) {
      Strategy strategy = {.synchronization = way};
      std::vector<uint32_t> chosen;
      // Of some the operators share one product of degrees, as good ones do.
      const uint32_t parts_min = 1u << random.Below(3);
      for (const std::vector<OpConfig>& configs : bounds.configs()) {
        uint32_t c = random.Below(static_cast<uint32_t>(configs.size()));
        while (configs[c].devices.size() < parts_min &&
               configs.back().devices.size() >= parts_min) {
          c = random.Below(static_cast<uint32_t>(configs.size()));
        }
        chosen.push_back(c);
        strategy.ops.push_back(configs[c]);
      }
      ASSERT_TRUE(simulator.SetStrategy(strategy).ok());
      const Nanos step = simulator.StepTime();
      // Domains from all configurations to the one.
      for (const uint32_t percent : {100u, 30u, 3u, 0u}) {
        Domains domains;
        for (uint32_t op = 0; op < chosen.size(); ++op) {
          std::vector<uint32_t>& domain = domains.emplace_back();
          const bool decided = random.Below(100) >= percent;
          for (uint32_t c = 0; c < bounds.configs()[op].size(); ++c) {
            if (c == chosen[op] || (!decided && random.Below(2) == 0)) domain.push_back(c);
          }
        }
        std::vector<std::vector<Nanos>> left;
        ASSERT_TRUE(bounds.Tighten(step + 1, &domains, &left)) << NameOf(way) << " " << percent;
        for (uint32_t op = 0; op < chosen.size(); ++op) {
          const auto it = std::find(domains[op].begin(), domains[op].end(), chosen[op]);
          ASSERT_NE(it, domains[op].end()) << graph.ops[op].name;
          const Nanos bound = left[op][static_cast<size_t>(it - domains[op].begin())];
          ASSERT_LE(bound, step);
          closest = std::max(closest, static_cast<double>(bound) / static_cast<double>(step));
        }
      }
    }
    EXPECT_GT(closest, 0.7);  // that a bound is 0 proves nothing
  }
}

TEST(PartialBoundsTest, HoldForStrategiesOfTheirDomains) {
  const auto machine = ParseMachine(kNode, "node");
  ASSERT_TRUE(machine.ok()) << machine.status();
  const RooflineCost costs(machine->kinds(), UsualEfficiencies());
  ExpectBoundsToHold(Zoo("lenet5", 0), *machine, costs, 500);
  ExpectBoundsToHold(Zoo("rnnlm:hidden=64", 2), *machine, costs, 500);
  const FakeCosts fake(0.1);
  const Machine machines = FakeMachine({.nodes = 2, .bytes_per_ns = 0.5, .servers = 2});
  for (const bool by_ranges : {false, true}) {
    ExpectBoundsToHold(Chain(16, {12, 60, 20, 33}), machines, fake, 500,
                       {.rings_by_ranges = by_ranges});
  }
}

TEST(BranchAndBoundTest, ProvesLenetOnFourDevices) {
  const auto machine = ParseMachine(kNode, "node");
  ASSERT_TRUE(machine.ok()) << machine.status();
  const RooflineCost costs(machine->kinds(), UsualEfficiencies());
  const OpGraph graph = Zoo("lenet5", 0);
  const Space space(&graph, &*machine);
  const auto result =
      BranchAndBoundSearcher().Search({.space = &space, .costs = &costs}, {.proposals = 1'000'000});
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->proved);
  EXPECT_GT(result->visited, 100u);
  EXPECT_LT(result->found.step_ns, result->best_seed.step_ns);
}

// One operator on one device: from its last backward part on, by hand.
TEST(SyncTailsTest, AreTheChainsBehindTheLastPart) {
  FakeGraph g(8);
  g.Add(Linear{.outputs = 16, .bias = false}, {g.Input({8, 32})});  // 2,048 bytes
  const Machine machine = FakeMachine({.servers = 1});
  SyncTails tails(&g.graph(), 0, machine, {});
  const OpConfig whole = {.degrees = {1, 1, 1}, .devices = {1}};
  const OpConfig halves = {.degrees = {2, 1, 1}, .devices = {0, 1}};
  // Reads two and writes one at 1 byte a nanosecond, and nothing comes before.
  EXPECT_EQ(tails.Find({&whole}, Synchronization::kOwner).tail[0], 3 * 2048);
  EXPECT_EQ(tails.Find({&whole}, Synchronization::kOwner).apply, (std::vector<Nanos>{0, 3 * 2048}));
  // The owner may be the last: it applies five times the bytes and sends the parameter back.
  const SyncBounds owner = tails.Find({&halves}, Synchronization::kOwner);
  EXPECT_EQ(owner.tail[0], 5 * 2048 + 2048 + 10);
  EXPECT_EQ(owner.apply, (std::vector<Nanos>{5 * 2048, 0}));
  // The ring's bytes and latency, another round's latency, applying.
  EXPECT_EQ(tails.Find({&halves}, Synchronization::kRing).tail[0], 2048 + 10 + 10 + 3 * 2048);
  // By ranges: a half is pushed, applied as an owner's, and sent back, in both at once.
  SyncTails by_ranges(&g.graph(), 0, machine, {.rings_by_ranges = true});
  const SyncBounds ranges = by_ranges.Find({&halves}, Synchronization::kRing);
  EXPECT_EQ(ranges.tail[0], (1024 + 10) + 5 * 1024 + (1024 + 10));
  EXPECT_EQ(ranges.apply, (std::vector<Nanos>{5 * 1024, 5 * 1024}));
  // Both push over two links, together; apply; pull over two.
  EXPECT_EQ(tails.Find({&halves}, Synchronization::kServers).tail[0],
            (2 * 2048 + 20) + 2 * 2048 + (2 * 2048 + 20));
}

}  // namespace
}  // namespace soapstone::planner
