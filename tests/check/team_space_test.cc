// Teams by every interleaving: the coordinator, engines with the programs of lowered strategies,
// shards that join seats, blocks between them. Each world is of small teams and few clocks, and
// then batches that are evaluated; between them are all kinds of waiting that a team has: for a
// block, for parameters, for word of a clock, for the rest of a team that comes again. Each mutant
// dies in a world that holds without it.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "sim/explore.h"
#include "sim/team/team_world.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"
#include "tests/check/equal_futures.h"
#include "tests/check/team_jobs.h"

namespace soapstone::check {
namespace {

using planner::OpConfig;
using planner::OpGraph;
using planner::Strategy;
using sim::TeamMutant;
using sim::TeamWorld;

constexpr int64_t kBatch = 4;

enum class TeamShapeKind {
  kPipeline,  // (a) two stages, two micro-batches
  kCrossing,  // (b) outputs split, then samples: blocks cross both ways
  kShared,    // (c) samples split: all parameters have both holders
  kRing,      // the same, each keeps a range of them
  kSingle,    // one seat has all
  kForward,   // (d) the first seat has no parameters, and nothing flows back to it
};

OpConfig Whole(const planner::PlanOp& op, uint32_t seat) {
  return {.degrees = std::vector<uint32_t>(op.rule.dims.size(), 1), .devices = {seat}};
}

// Along the first dimension of that kind.
OpConfig Halves(const planner::PlanOp& op, models::DimKind kind) {
  OpConfig config = Whole(op, 0);
  for (size_t d = 0; d < op.rule.dims.size(); ++d) {
    if (op.rule.dims[d].kind != kind || !op.rule.dims[d].splittable) continue;
    config.degrees[d] = 2;
    config.devices = {0, 1};
    return config;
  }
  return config;
}

Strategy StrategyOf(const OpGraph& graph, TeamShapeKind kind) {
  Strategy strategy = {.synchronization = planner::Synchronization::kServers};
  const size_t ops = graph.ops.size() / static_cast<size_t>(graph.micro_batches);
  for (size_t k = 0; k < graph.ops.size(); ++k) {
    const planner::PlanOp& op = graph.ops[k];
    switch (kind) {
      case TeamShapeKind::kPipeline:
        strategy.ops.push_back(Whole(op, 2 * (k % ops) < ops ? 0 : 1));
        break;
      case TeamShapeKind::kCrossing:
        strategy.ops.push_back(k == 1 ? Halves(op, models::DimKind::kParameter)
                                      : Halves(op, models::DimKind::kSample));
        break;
      case TeamShapeKind::kShared:
        strategy.ops.push_back(Halves(op, models::DimKind::kSample));
        break;
      case TeamShapeKind::kRing:
        strategy.synchronization = planner::Synchronization::kRing;
        strategy.ops.push_back(Halves(op, models::DimKind::kSample));
        break;
      case TeamShapeKind::kSingle:
        strategy.ops.push_back(Whole(op, 0));
        break;
      case TeamShapeKind::kForward:
        strategy.ops.push_back(Whole(op, k % ops == 0 ? 0 : 1));
        break;
    }
  }
  return strategy;
}

std::shared_ptr<const cluster::TrainingJob> JobOf(TeamShapeKind kind,
                                                  const TeamJobOptions& options) {
  const bool shallow = kind != TeamShapeKind::kPipeline && kind != TeamShapeKind::kCrossing;
  const models::Graph graph =
      *models::BuildModel(shallow ? "softmax" : "mlp:tiny", {.image = {1, 2, 4}, .classes = 4});
  const int64_t micro_batches = kind == TeamShapeKind::kPipeline ? 2 : 1;
  const OpGraph plan =
      *planner::MakeOpGraph(graph, {.batch = kBatch, .micro_batches = micro_batches});
  return TeamJobOf(graph, plan, StrategyOf(plan, kind), options);
}

struct TeamSpace {
  std::string name;
  TeamShapeKind kind{};
  TeamJobOptions job;
  sim::TeamFaults faults;
  bool may_end = false;  // a loss ends the job, and is to
};

TeamWorld WorldOf(const TeamSpace& space, TeamMutant mutant = TeamMutant::kNone) {
  return TeamWorld({.job = JobOf(space.kind, space.job),
                    .faults = space.faults,
                    .may_end = space.may_end,
                    .mutant = mutant});
}

// What waits in a team of two seats.
std::vector<TeamSpace> SpacesOfOne() {
  using enum TeamShapeKind;
  return {
      {"pipeline", kPipeline},
      {"pipeline, a message twice", kPipeline, {}, {.duplicates = 1}},
      {"crossing", kCrossing},
      {"crossing under ssp", kCrossing, {.policy = "ssp:s=1"}},
      {"shared", kShared, {.clocks = 3}},
      {"shared under ssp, a message twice",
       kShared,
       {.policy = "ssp:s=1", .clocks = 3},
       {.duplicates = 1}},
      {"ring", kRing, {.clocks = 3}},
      {"ring, a message twice", kRing, {}, {.duplicates = 1}},
      {"ring under ssp", kRing, {.policy = "ssp:s=1", .clocks = 3}},
      {"forward", kForward, {.clocks = 3}},
      {"shared under essp, a message twice",
       kShared,
       {.policy = "essp:s=0", .clocks = 3},
       {.duplicates = 1}},
      {"pipeline under easgd", kPipeline, {.policy = "easgd:tau=1", .clocks = 3}},
      {"pipeline under localsgd, a message twice",
       kPipeline,
       {.policy = "localsgd:h=2", .clocks = 3},
       {.duplicates = 1}},
      {"forward, a message twice", kForward, {.policy = "async", .clocks = 3}, {.duplicates = 1}},
      {"window of two", kPipeline, {.policy = "ssp:s=1", .clocks = 3, .window = 2}},
      {"window of two, a message twice",
       kPipeline,
       {.policy = "ssp:s=1", .window = 2},
       {.duplicates = 1}},
      {"window of two, forward", kForward, {.policy = "ssp:s=1", .clocks = 3, .window = 2}},
      {"window of two, reads ahead",
       kShared,
       {.policy = "ssp:s=1", .clocks = 3, .window = 2},
       {.duplicates = 1}},
      {"window of two, reads ahead, crossing", kCrossing, {.policy = "ssp:s=1", .window = 2}}};
}

// (e) teams of one and of two seats that are lost, leave and come again; (f) those without which
// the job ends.
std::vector<TeamSpace> SpacesOfTwo() {
  using enum TeamShapeKind;
  const TeamJobOptions alone = {
      .policy = "ssp:s=1", .seats = 1, .teams = 2, .evaluation_batches = 1};
  const TeamJobOptions pairs = {
      .policy = "ssp:s=1", .clocks = 1, .teams = 2, .evaluation_batches = 1};
  TeamJobOptions bsp_alone = alone;
  bsp_alone.policy = "bsp";
  return {
      {"two teams", kShared, {.teams = 2}},
      {"two teams under ssp", kShared, {.policy = "ssp:s=1", .teams = 2}},
      {"two teams under essp", kShared, {.policy = "essp:s=1", .teams = 2}},
      {"two teams under softsync", kShared, {.policy = "softsync:n=1", .teams = 2}},
      {"two teams under softsync, one is lost",
       kShared,
       {.policy = "softsync:n=1", .clocks = 1, .teams = 2, .evaluation_batches = 1},
       {.losses = 1}},
      {"two teams under dcasgd", kShared, {.policy = "dcasgd:lambda=1", .teams = 2}},
      {"two pipelines under easgd", kForward, {.policy = "easgd:tau=2,mode=async", .teams = 2}},
      {"two pipelines under easgd in rounds",
       kForward,
       {.policy = "easgd:tau=2,mode=sync", .clocks = 3, .teams = 2, .evaluation_batches = 1}},
      {"two pipelines under localsgd",
       kForward,
       {.policy = "localsgd:h=2", .clocks = 3, .teams = 2, .evaluation_batches = 1}},
      {"two seats under localsgd, one leaves, one comes",
       kSingle,
       {.policy = "localsgd:h=2", .clocks = 3, .seats = 1, .teams = 2, .evaluation_batches = 1},
       {.leaves = 1, .joins = 1}},
      {"two pipelines, window of two", kForward, {.policy = "ssp:s=1", .window = 2, .teams = 2}},
      {"two teams, one is lost", kShared, pairs, {.losses = 1}},
      {"two seats, one leaves, one comes", kSingle, alone, {.leaves = 1, .joins = 1}},
      {"two seats under bsp, one crashes", kSingle, bsp_alone, {.crashes = 1}},
      {"two seats under bsp, both crash", kSingle, bsp_alone, {.crashes = 2}, true}};
}

// Of two teams each has a state for each of the other.
std::vector<TeamSpace> LargeSpaces() {
  using enum TeamShapeKind;
  const TeamJobOptions alone = {
      .policy = "ssp:s=1", .seats = 1, .teams = 2, .evaluation_batches = 1};
  const TeamJobOptions pairs = {.policy = "ssp:s=1", .teams = 2};
  const TeamJobOptions bsp_pairs = {.teams = 2, .evaluation_batches = 1};
  const TeamJobOptions bsp_single = {.seats = 1, .teams = 2, .evaluation_batches = 1};
  return {
      {"two teams, one is lost", kShared, pairs, {.losses = 1}},
      {"two pipelines, one is lost", kForward, pairs, {.losses = 1}},
      {"two teams, reads ahead",
       kShared,
       {.policy = "ssp:s=1", .clocks = 3, .window = 2, .teams = 2}},
      {"two seats, one crashes, one comes, a message twice",
       kSingle,
       alone,
       {.duplicates = 1, .crashes = 1, .joins = 1}},
      {"two teams under bsp, a seat crashes", kShared, bsp_pairs, {.crashes = 1}},
      {"two pipelines under bsp, one is lost", kForward, bsp_pairs, {.losses = 1}},
      {"two seats under bsp, one comes again", kSingle, bsp_single, {.losses = 1, .joins = 1}},
      {"two pipelines, one is lost and comes again", kForward, pairs, {.losses = 1, .joins = 2}},
      {"two pipelines, a seat leaves, a message twice",
       kForward,
       pairs,
       {.duplicates = 1, .leaves = 1}},
      {"two teams, a seat crashes, all comes again", kShared, pairs, {.crashes = 1, .joins = 2}}};
}

void ExpectHolds(const std::vector<TeamSpace>& spaces, uint64_t states_max, bool complete) {
  for (const TeamSpace& space : spaces) {
    const sim::ExploreReport report = sim::Explore(WorldOf(space), {.states_max = states_max});
    std::printf("%-52s %s\n", space.name.c_str(), report.ToString().c_str());
    EXPECT_FALSE(report.violation.has_value()) << space.name << ": " << *report.violation;
    EXPECT_TRUE(report.complete || (!complete && report.states > states_max)) << space.name;
    EXPECT_GT(report.ends, 0u) << space.name;
  }
}

TEST(TeamSpaceTest, EveryInterleavingOfOneTeamHolds) {
  ExpectHolds(SpacesOfOne(), 3'000'000, true);
}
TEST(TeamSpaceTest, EveryInterleavingOfSmallTeamsHolds) {
  ExpectHolds(SpacesOfTwo(), 3'000'000, true);
}

// SOAPSTONE_STATES says how many of each; by hand a million and more.
uint64_t StatesMax() {
  const char* wanted = std::getenv("SOAPSTONE_STATES");
  return wanted == nullptr ? 200'000 : std::strtoull(wanted, nullptr, 10);
}

class LargeTeamSpaces : public testing::TestWithParam<size_t> {};
TEST_P(LargeTeamSpaces, Hold) { ExpectHolds({LargeSpaces()[GetParam()]}, StatesMax(), false); }
INSTANTIATE_TEST_SUITE_P(All, LargeTeamSpaces, testing::Range(size_t{0}, LargeSpaces().size()));

TEST(TeamSpaceTest, EachMutantDiesWhereTheShippedOneHolds) {
  std::vector<TeamSpace> spaces = SpacesOfOne();
  for (TeamSpace& space : SpacesOfTwo()) spaces.push_back(std::move(space));
  for (TeamSpace& space : LargeSpaces()) spaces.push_back(std::move(space));
  const struct {
    TeamMutant mutant;
    const char* name;
    const char* space;
    const char* kills;
  } rows[] = {
      {TeamMutant::kOrdersWait, "orders that wait for each other", "pipeline", "S5"},
      {TeamMutant::kNoGrants, "no word of a clock is waited for", "forward", "S5"},
      {TeamMutant::kEarlyLoad, "computes with old parameters", "pipeline", "B1"},
      {TeamMutant::kBlockTwice, "a block passes for the next clock's", "pipeline, a message twice",
       "B2"},
      {TeamMutant::kFirstPush, "the first push is the team's", "shared", "E1"},
      {TeamMutant::kFirstPull, "the first pull is the team's", "shared", "S5"},
      {TeamMutant::kAsTheyCome, "sums in the order of arrival", "shared under ssp, a message twice",
       "E1"},
      {TeamMutant::kEachFresh, "fresh values are sent to a team that has begun",
       "two teams under essp", "T1"},
      {TeamMutant::kFirstPush, "the first push is the team's", "two teams under softsync", "E1"},
      {TeamMutant::kUpdatesLost, "a shard loses updates", "two teams under dcasgd", "G1"},
      {TeamMutant::kEarlyLoad, "an exchange is not made", "pipeline under easgd", "B1"},
      {TeamMutant::kNoLocalStep, "a local step is not made", "two pipelines under localsgd", "B1"},
      {TeamMutant::kNoStash, "backward with newer parameters", "window of two", "B1"},
      {TeamMutant::kTooFar, "runs ahead beyond the bound", "window of two", "S5"},
      {TeamMutant::kLeadForgotten, "shards forget the lead", "window of two", "G1"},
      {TeamMutant::kUpdatesLost, "a shard loses updates", "shared", "G1"},
      {TeamMutant::kFirstPush, "a range has the first push alone", "ring", "E1"},
      {TeamMutant::kAsTheyCome, "a range sums in the order of arrival", "ring under ssp", "E1"},
      {TeamMutant::kTakenOverLate, "seats disagree on what they take over",
       "two pipelines under bsp, one is lost", "S5"},
      {TeamMutant::kFormerPush, "a push of a former seat is taken",
       "two seats, one crashes, one comes, a message twice", "G1"}};
  for (const auto& row : rows) {
    for (const TeamSpace& space : spaces) {
      if (space.name != row.space) continue;
      const sim::ExploreReport report =
          sim::Explore(WorldOf(space, row.mutant), {.states_max = 3'000'000});
      std::printf("%-36s %s\n", row.name, report.ToString().c_str());
      const std::string found = report.violation.value_or("it lives");
      EXPECT_TRUE(absl::StrContains(found, row.kills)) << row.name << ": " << found;
      break;
    }
  }
}

TEST(TeamSpaceTest, WorldsWithTheSameFingerprintHaveEqualFutures) {
  for (const std::vector<TeamSpace>& spaces : {SpacesOfOne(), SpacesOfTwo(), LargeSpaces()}) {
    for (const TeamSpace& space : spaces) {
      const FuturesReport report = CompareFutures(WorldOf(space), {.pairs_max = 200});
      EXPECT_FALSE(report.difference.has_value()) << space.name << ": " << *report.difference;
      EXPECT_GT(report.pairs, 0u) << space.name;
    }
  }
}

}  // namespace
}  // namespace soapstone::check
