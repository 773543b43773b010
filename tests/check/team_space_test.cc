// Teams by every interleaving: engines with the programs of lowered strategies, shards that join
// seats, blocks between them. Each world is of two seats and two clocks, and then two batches that
// are evaluated; between them are all kinds of waiting that a team has: for a block, for
// parameters, for word of a clock. Each mutant dies in a world that holds without it.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "glog/logging.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "sim/explore.h"
#include "sim/team_world.h"
#include "strategy/lowering.h"
#include "strategy/order.h"
#include "strategy/pieces.h"
#include "strategy/window.h"

namespace soapstone::check {
namespace {

using planner::OpConfig;
using planner::OpGraph;
using planner::Strategy;
using sim::TeamMutant;
using sim::TeamWorld;

constexpr uint32_t kSeats = 2;
constexpr int64_t kBatch = 4;

enum class TeamShapeKind {
  kPipeline,  // (a) two stages, two micro-batches
  kCrossing,  // (b) outputs split, then samples: blocks cross both ways
  kShared,    // (c) samples split: all parameters have both holders
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
      case TeamShapeKind::kForward:
        strategy.ops.push_back(Whole(op, k % ops == 0 ? 0 : 1));
        break;
    }
  }
  return strategy;
}

std::shared_ptr<const cluster::TrainingJob> JobOf(TeamShapeKind kind, const std::string& policy,
                                                  Clock clocks, uint32_t window, uint32_t teams) {
  const models::Graph model = *models::BuildModel("softmax", {.image = {1, 2, 4}, .classes = 4});
  const models::Graph deep = *models::BuildModel("mlp:tiny", {.image = {1, 2, 4}, .classes = 4});
  const bool shallow = kind == TeamShapeKind::kForward || kind == TeamShapeKind::kShared;
  const models::Graph& graph = shallow ? model : deep;
  const int64_t micro_batches = kind == TeamShapeKind::kPipeline ? 2 : 1;
  const OpGraph plan =
      *planner::MakeOpGraph(graph, {.batch = kBatch, .micro_batches = micro_batches});
  const Strategy strategy = StrategyOf(plan, kind);
  auto team = std::make_shared<cluster::TeamJob>();
  team->shape = {.teams = teams, .seats = kSeats};
  team->evaluation_batch = kBatch;
  team->evaluation_batches = 2;
  team->plan.seats = kSeats;
  team->plan.window = window;
  team->plan.pieces = *planner::PiecesOf(plan, strategy);
  team->plan.holders = planner::HoldersOf(team->plan.pieces, plan, strategy);
  team->plan.params = planner::SpecsOf(team->plan.pieces, graph.params());
  const planner::Order order = planner::CanonicalOrder(plan, strategy, kSeats);
  team->plan.leads =
      planner::LeadsOf(planner::Lower(plan, strategy, order)->messages, kSeats, window);
  team->plan.steps[kBatch] =
      *planner::Lower(plan, strategy, planner::ForwardFirst(order, team->plan.leads));
  auto job = std::make_shared<cluster::TrainingJob>();
  job->specs.policy = *consistency::ParsePolicy(policy);
  job->layout = std::make_shared<const wire::Layout>(*wire::Layout::BuildOfPieces(
      team->plan.params, team->plan.holders,
      {.shard_count = team->sets(), .bucket_bytes = uint64_t{1} << 30}));
  job->worker_layout = job->layout;
  job->ops = std::make_shared<const std::vector<worker::OpOutline>>();
  job->batch = job->train_samples = teams * kBatch;
  job->micro_batches = teams * static_cast<uint32_t>(micro_batches);
  job->total_clocks = clocks;
  job->workers = teams * kSeats;
  job->team = std::move(team);
  return job;
}

struct TeamSpace {
  std::string name;
  TeamShapeKind kind{};
  std::string policy = "bsp";
  Clock clocks = 2;
  uint32_t duplicates = 0;
  uint32_t window = 1;  // iterations under way
  uint32_t teams = 1;
  uint32_t losses = 0;  // of teams
};

sim::ExploreReport ExploreTeam(const TeamSpace& space, TeamMutant mutant = TeamMutant::kNone) {
  const TeamWorld start(
      {.job = JobOf(space.kind, space.policy, space.clocks, space.window, space.teams),
       .duplicates = space.duplicates,
       .losses = space.losses,
       .mutant = mutant});
  return sim::Explore(start, {.states_max = 3'000'000});
}

std::vector<TeamSpace> Spaces() {
  return {{"pipeline", TeamShapeKind::kPipeline},
          {"pipeline, a message twice", TeamShapeKind::kPipeline, "bsp", 2, 1},
          {"crossing", TeamShapeKind::kCrossing},
          {"crossing under ssp", TeamShapeKind::kCrossing, "ssp:s=1"},
          {"shared", TeamShapeKind::kShared, "bsp", 3},
          {"shared under ssp, a message twice", TeamShapeKind::kShared, "ssp:s=1", 3, 1},
          {"forward", TeamShapeKind::kForward, "bsp", 3},
          {"forward, a message twice", TeamShapeKind::kForward, "async", 3, 1},
          {"window of two", TeamShapeKind::kPipeline, "ssp:s=1", 3, 0, 2},
          {"window of two, a message twice", TeamShapeKind::kPipeline, "ssp:s=1", 2, 1, 2},
          {"window of two, forward", TeamShapeKind::kForward, "ssp:s=1", 3, 0, 2},
          {"window of two, reads ahead", TeamShapeKind::kShared, "ssp:s=1", 3, 1, 2},
          {"window of two, reads ahead, crossing", TeamShapeKind::kCrossing, "ssp:s=1", 2, 0, 2},
          {"two teams", TeamShapeKind::kShared, "bsp", 2, 0, 1, 2},
          {"two teams under ssp", TeamShapeKind::kShared, "ssp:s=1", 2, 0, 1, 2},
          {"two teams, one is lost", TeamShapeKind::kShared, "ssp:s=1", 1, 0, 1, 2, 1},
          {"two pipelines, window of two", TeamShapeKind::kForward, "ssp:s=1", 2, 0, 2, 2}};
}

// Of two teams each has a state for each of the other.
std::vector<TeamSpace> LargeSpaces() {
  return {{"two teams, one is lost", TeamShapeKind::kShared, "ssp:s=1", 2, 0, 1, 2, 1},
          {"two pipelines, one is lost", TeamShapeKind::kForward, "ssp:s=1", 2, 0, 1, 2, 1},
          {"two teams, reads ahead", TeamShapeKind::kShared, "ssp:s=1", 3, 0, 2, 2}};
}

void ExpectHolds(const std::vector<TeamSpace>& spaces) {
  for (const TeamSpace& space : spaces) {
    const sim::ExploreReport report = ExploreTeam(space);
    std::printf("%-36s %s\n", space.name.c_str(), report.ToString().c_str());
    EXPECT_FALSE(report.violation.has_value()) << space.name << ": " << *report.violation;
    EXPECT_TRUE(report.complete) << space.name;
    EXPECT_GT(report.ends, 0u) << space.name;
  }
}

TEST(TeamSpaceTest, EveryInterleavingHolds) { ExpectHolds(Spaces()); }
TEST(TeamSpaceTest, EveryInterleavingOfTwoTeamsHolds) { ExpectHolds(LargeSpaces()); }

TEST(TeamSpaceTest, EachMutantDiesWhereTheShippedOneHolds) {
  const struct {
    TeamMutant mutant;
    const char* name;
    const char* space;
    const char* kills;
  } rows[] = {{TeamMutant::kOrdersWait, "orders that wait for each other", "pipeline", "S5"},
              {TeamMutant::kNoGrants, "no word of a clock is waited for", "forward", "S5"},
              {TeamMutant::kEarlyLoad, "computes with old parameters", "pipeline", "B1"},
              {TeamMutant::kBlockTwice, "a block passes for the next clock's",
               "pipeline, a message twice", "B2"},
              {TeamMutant::kFirstPush, "the first push is the team's", "shared", "E1"},
              {TeamMutant::kFirstPull, "the first pull is the team's", "shared", "S5"},
              {TeamMutant::kNoStash, "backward with newer parameters", "window of two", "B1"},
              {TeamMutant::kTooFar, "runs ahead beyond the bound", "window of two", "S5"},
              {TeamMutant::kUpdatesLost, "a shard loses updates", "shared", "G1"}};
  for (const auto& row : rows) {
    for (const TeamSpace& space : Spaces()) {
      if (space.name != row.space) continue;
      const sim::ExploreReport report = ExploreTeam(space, row.mutant);
      std::printf("%-36s %s\n", row.name, report.ToString().c_str());
      ASSERT_TRUE(report.violation.has_value()) << row.name << " lives";
      EXPECT_TRUE(absl::StrContains(*report.violation, row.kills)) << *report.violation;
    }
  }
}

}  // namespace
}  // namespace soapstone::check
