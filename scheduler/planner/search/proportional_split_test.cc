#include "scheduler/planner/search/proportional_split.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/cost/roofline_cost.h"
#include "scheduler/planner/planner_fixture.h"
#include "scheduler/planner/search/mcmc.h"
#include "scheduler/planner/search/proposals.h"
#include "strategy/machine_text.h"

namespace soapstone::planner {
namespace {

using compute::Linear;
using testing::ElementsAre;

// The fixture's machine with the last half of its devices of a kind half as fast.
Machine UnlikeMachine(const FakeMachineSpec& spec) {
  const Machine alike = FakeMachine(spec);
  Machine::Parts parts = {.name = "unlike"};
  parts.kinds = {{"fast", 2e12, 1e13, spec.memory_bytes, 0},
                 {"slow", 1e12, 0.5e13, spec.memory_bytes, 0}};
  parts.devices = alike.devices();
  const auto n = static_cast<uint32_t>(parts.devices.size());
  for (uint32_t d = n / 2; d < n; ++d) parts.devices[d].kind = 1;
  parts.links = alike.links();
  for (uint32_t a = 0; a < n; ++a) {
    for (uint32_t b = 0; b < n; ++b) {
      const absl::Span<const uint32_t> path = alike.Path(a, b);
      parts.device_paths.emplace_back(path.begin(), path.end());
    }
  }
  absl::StatusOr<Machine> machine = Machine::Make(std::move(parts));
  CHECK(machine.ok()) << machine.status();
  return *std::move(machine);
}

TEST(CutsInProportionTest, AreTheNearestWholeUnits) {
  const models::IterationDim rows = {.name = "n", .extent = 64};
  EXPECT_THAT(CutsInProportion(rows, {2.0, 1.0}), ElementsAre(43));  // 42.67
  EXPECT_THAT(CutsInProportion(rows, {1.0, 1.0, 2.0}), ElementsAre(16, 32));
  const models::IterationDim heads = {.name = "d", .extent = 96, .unit = 16};
  EXPECT_THAT(CutsInProportion(heads, {3.0, 2.0}), ElementsAre(64));  // 3.6 of 6 heads
}

TEST(CutsInProportionTest, LeaveEachPartAUnit) {
  const models::IterationDim rows = {.name = "n", .extent = 4};
  EXPECT_THAT(CutsInProportion(rows, {1000.0, 1.0, 1.0, 1.0}), ElementsAre(1, 2, 3));
  EXPECT_THAT(CutsInProportion(rows, {1.0, 1.0, 1000.0}), ElementsAre(1, 2));
  EXPECT_THAT(CutsInProportion(rows, {1000.0, 1.0, 1.0}), ElementsAre(2, 3));
}

struct PairOfDims {
  PairOfDims() {
    FakeGraph g(12);
    g.Add(Linear{.outputs = 30}, {g.Input({12, 8})});
    graph = g.graph();
  }
  OpGraph graph;
};

TEST(CutInProportionTest, WeighsAnIndexByAllOfItsParts) {
  const PairOfDims c;
  const PlanOp& op = c.graph.ops[0];
  const std::vector<double> speeds = {4, 4, 2, 2};
  // Rows over unlike pairs, columns within pairs that are alike.
  OpConfig config = {.degrees = {2, 2, 1}, .devices = {0, 1, 2, 3}};
  CutInProportion(op, speeds, &config);
  EXPECT_THAT(config.cuts, ElementsAre(ElementsAre(8), ElementsAre(), ElementsAre()));
  EXPECT_TRUE(CheckConfig(op, config, 4).ok());
  // The other way round.
  config.devices = {0, 2, 1, 3};
  CutInProportion(op, speeds, &config);
  EXPECT_THAT(config.cuts, ElementsAre(ElementsAre(), ElementsAre(20), ElementsAre()));
  // A device that has two parts gives each half of itself.
  config = {.degrees = {3, 1, 1}, .devices = {0, 0, 2}};
  CutInProportion(op, speeds, &config);
  EXPECT_TRUE(config.cuts.empty());
}

TEST(SpaceTest, ProportionalCutsAreConfigurationsOfUnlikeDevicesAlone) {
  const PairOfDims c;
  const Machine unlike = UnlikeMachine({.devices_per_node = 4});
  std::set<std::vector<std::vector<int64_t>>> cuts;
  for (const OpConfig& config : Space(&c.graph, &unlike).Configs(0)) {
    EXPECT_TRUE(CheckConfig(c.graph.ops[0], config, 4).ok());
    cuts.insert(config.cuts);
  }
  EXPECT_TRUE(cuts.contains({{4, 8, 10}, {}, {}}));
  EXPECT_TRUE(cuts.contains({{}, {20}, {}}));
  EXPECT_TRUE(cuts.contains({}));
  const Machine alike = FakeMachine({.devices_per_node = 4});
  const Space without(&c.graph, &unlike, {.uneven = false});
  const Space of_alike(&c.graph, &alike);
  for (const Space* space : {&without, &of_alike}) {
    EXPECT_FALSE(space->uneven());
    for (const OpConfig& config : space->Configs(0)) EXPECT_TRUE(config.cuts.empty());
  }
  EXPECT_EQ(without.Configs(0), of_alike.Configs(0));
}

struct Chain {
  explicit Chain(Machine its) : machine(std::move(its)) {
    FakeGraph g(60);
    FakeTensor x = g.Input({60, 4000});
    x = g.Add(Linear{.outputs = 4000, .relu = true}, {x});
    g.Add(compute::SoftmaxCrossEntropy{}, {x, g.Input({60}, compute::DataType::kInt32)});
    graph = g.graph();
  }
  SearchResult Search(bool uneven, const SearchOptions& options) const {
    const Space space(&graph, &machine, {.uneven = uneven});
    const Strategy seed = DataParallel(graph, static_cast<uint32_t>(machine.devices().size()));
    const RooflineCost costs(machine.kinds(), {});
    absl::StatusOr<SearchResult> result = SearchByWalk(space, costs, {&seed, 1}, options);
    CHECK(result.ok()) << result.status();
    return *std::move(result);
  }
  OpGraph graph;
  Machine machine;
};

TEST(MovesTest, AllMovesGiveLegalConfigurationsAndBalanceGivesCuts) {
  const Chain c(UnlikeMachine({.devices_per_node = 4}));
  const Space space(&c.graph, &c.machine);
  const RooflineCost costs(c.machine.kinds(), {});
  Simulator simulator(&c.graph, &c.machine, &costs);
  ASSERT_TRUE(simulator.SetStrategy(DataParallel(c.graph, 4)).ok());
  ProposalGenerator moves(&space);
  RandomSource random(3, 0);
  uint64_t with_cuts = 0;
  std::set<std::vector<std::vector<int64_t>>> shifted;
  for (int i = 0; i < 20'000; ++i) {
    const absl::Span<const Change> changes = moves.Draw(simulator, &random);
    for (const Change& change : changes) {
      const PlanOp& op = c.graph.ops[change.op];
      ASSERT_TRUE(CheckConfig(op, change.config, 4).ok());
      OpConfig plain = change.config;
      DropEvenCuts(op, &plain);
      ASSERT_EQ(plain, change.config);
      with_cuts += change.config.cuts.empty() ? 0 : 1;
      if (!change.config.cuts.empty()) shifted.insert(change.config.cuts);
    }
    if (changes.empty()) continue;
    simulator.Propose(changes, kNever - 1);
    if (i % 7 == 0) {
      simulator.Accept();
    } else {
      simulator.Reject();
    }
  }
  EXPECT_GT(with_cuts, 2000u);
  EXPECT_GT(shifted.size(), 200u);
}

TEST(MovesTest, WalksOverDevicesOfOneKindAreAsWithoutUnevenSplits) {
  const Chain c(FakeMachine({.devices_per_node = 4}));
  const SearchResult with = c.Search(true, {.proposals = 1500});
  const SearchResult without = c.Search(false, {.proposals = 1500});
  EXPECT_EQ(with.chain_digest, without.chain_digest);
  EXPECT_EQ(with.strategy, without.strategy);
}

// Of devices of 2 : 1 even splits leave the fast one waiting, T/2 against T/3, but for pipelines of
// layers, of which there are none here.
TEST(MovesTest, AWalkOverUnlikeDevicesFindsUnevenSplits) {
  const Chain c(UnlikeMachine({.bytes_per_ns = 1000}));
  const SearchResult uneven = c.Search(true, {.proposals = 3000});
  const SearchResult even = c.Search(false, {.proposals = 3000});
  EXPECT_GT(static_cast<double>(even.found.step_ns),
            1.3 * static_cast<double>(uneven.found.step_ns));
  for (const OpConfig& config : even.strategy.ops) EXPECT_TRUE(config.cuts.empty());
}

// A whole model on the pair of examples/machines: walks over even parts alone end where one device
// does everything, whatever the pipeline of halves.
TEST(MovesTest, AWalkOverThePairFindsUnevenPartsOfLenet) {
  std::ifstream file(absl::StrCat(SOAPSTONE_SOURCE_DIR,
                                  "/examples/machines/heterogeneous_pair.machine.textproto"));
  std::stringstream text;
  text << file.rdbuf();
  const Machine machine = *ParseMachine(text.str(), "pair");
  const OpGraph graph =
      *MakeOpGraph(*models::BuildModel("lenet5", models::ModelInput{}), {.batch = 512});
  const RooflineCost costs(machine.kinds(), UsualEfficiencies());
  const Strategy seeds[] = {DataParallel(graph, 2), SingleDevice(graph, 0)};
  std::map<bool, SearchResult> found;
  for (bool uneven : {false, true}) {
    const Space space(&graph, &machine, {.uneven = uneven});
    found[uneven] = *SearchByWalk(space, costs, seeds, {.proposals = 4000});
  }
  EXPECT_GE(static_cast<double>(found[false].found.step_ns),
            1.3 * static_cast<double>(found[true].found.step_ns));
  for (const OpConfig& config : found[true].strategy.ops) {
    if (config.cuts.empty() || config.cuts[0].empty()) continue;
    EXPECT_NEAR(static_cast<double>(config.cuts[0][0]), 512 * 2.0 / 3, 40);
  }
  Simulator simulator(&graph, &machine, &costs);
  ASSERT_TRUE(simulator.SetStrategy(DataParallelBySpeed(graph, machine)).ok());
  EXPECT_LT(simulator.StepTime(), found[false].found.step_ns);
}

}  // namespace
}  // namespace soapstone::planner
