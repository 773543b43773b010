// Teams at random: a seed draws a model, a strategy that splits it, teams, a policy, and faults,
// and then what happens next until the job is over (sim/world/seeded_walk.h).
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "consistency/catalogue.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "sim/team/team_world.h"
#include "sim/world/seeded_walk.h"
#include "strategy/op_graph.h"
#include "strategy/strategy_text.h"
#include "strategy/testing/random_strategies.h"
#include "tests/check/team_jobs.h"

namespace soapstone::check {
namespace {

using planner::Draws;
using sim::TeamMutant;
using sim::TeamWorld;

constexpr int64_t kTeamBatch = 8;

struct Drawn {
  std::shared_ptr<const cluster::TrainingJob> job;
  sim::TeamFaults faults;
  bool may_end = false;
  double fault_probability = 0;
  std::string name;
};

std::string PolicyOf(uint32_t window, Draws* draws) {
  const int64_t slack = draws->Between(0, 2);
  if (window > 1) {
    if (draws->Coin(3)) return "async";
    return absl::StrCat("ssp:s=", window - 1 + static_cast<uint32_t>(slack));
  }
  switch (draws->Between(0, 12)) {
    case 0:
      return "bsp";
    case 1:
      return absl::StrCat("ssp:s=", slack);
    case 2:
      return absl::StrCat("dssp:lower=", slack, ",upper=", slack + draws->Between(0, 2));
    case 3:
      return absl::StrCat("psp:sample=1,s=", slack);
    case 4:
      return absl::StrCat("pssp:p=0.5,s=", slack);
    case 5:
      return absl::StrCat("essp:s=", slack);
    case 6:
      return absl::StrCat("softsync:n=", 1 + slack, ",rate=", draws->Coin() ? "each" : "mean");
    case 7:
      return "dcasgd";
    case 8:
      return absl::StrCat("easgd:tau=", 1 + slack, ",mode=", draws->Coin() ? "sync" : "async");
    case 9:
      return absl::StrCat("eamsgd:tau=", 1 + slack, ",delta=0.9");
    case 10:
      return absl::StrCat("localsgd:h=", 1 + slack);
    case 11:
      return absl::StrCat("bmuf:h=", 1 + slack);
    default:
      return "async";
  }
}

// Up to a few of each; half of the seeds have a team that comes again.
sim::TeamFaults FaultsOf(uint32_t seats, Draws* draws) {
  const auto few = [&](int64_t most) { return static_cast<uint32_t>(draws->Between(0, most)); };
  sim::TeamFaults faults = {.duplicates = few(4),
                            .losses = few(1),
                            .crashes = few(3),
                            .cuts = few(1),
                            .leaves = few(2),
                            .expulsions = few(1)};
  if (draws->Coin()) faults.joins = seats + few(seats);
  return faults;
}

// None where what was drawn is none that workers can run.
std::optional<Drawn> TryDraw(Draws* draws) {
  static constexpr std::array kModels = {"softmax", "mlp:tiny", "mlp:tiny"};
  const models::Graph model =
      *models::BuildModel(kModels[draws->Between(0, 2)], {.image = {1, 2, 4}, .classes = 4});
  const int64_t micro_batches = int64_t{1} << draws->Between(0, 2);
  const planner::OpGraph plan =
      *planner::MakeOpGraph(model, {.batch = kTeamBatch, .micro_batches = micro_batches});
  TeamJobOptions options = {.clocks = draws->Between(2, 5),
                            .seats = static_cast<uint32_t>(draws->Between(2, 4)),
                            .window = static_cast<uint32_t>(draws->Between(1, 3)),
                            .teams = static_cast<uint32_t>(draws->Between(2, 3)),
                            .servers = static_cast<uint32_t>(draws->Between(1, 2)),
                            .evaluation_batches = static_cast<uint64_t>(draws->Between(1, 2))};
  if (draws->Coin()) options.window = 1;
  options.policy = PolicyOf(options.window, draws);
  // Who steps by itself what it holds is the only one who does.
  const bool whole = consistency::ParsePolicy(options.policy)->keeps_parameters();
  planner::Strategy strategy = whole || draws->Coin()
                                   ? planner::RandomPipeline(plan, options.seats, draws)
                                   : planner::RandomStrategy(plan, {.seats = options.seats}, draws);
  static constexpr std::array kWays = {planner::Synchronization::kOwner,
                                       planner::Synchronization::kRing,
                                       planner::Synchronization::kServers};
  strategy.synchronization = kWays[draws->Between(0, 2)];
  Drawn drawn = {.job = TeamJobOf(model, plan, strategy, options)};
  if (drawn.job == nullptr) return std::nullopt;
  drawn.faults = FaultsOf(options.seats, draws);
  drawn.may_end = options.policy == "bsp" ? draws->Coin() : draws->Coin(8);
  static constexpr std::array kProbabilities = {0.03, 0.01, 0.003, 0.001};
  drawn.fault_probability = kProbabilities[draws->Between(0, 3)];
  drawn.name = absl::StrCat(options.policy, " ", options.teams, "x", options.seats, " window ",
                            options.window, " ", planner::NameOf(strategy.synchronization));
  return drawn;
}

Drawn DrawOf(uint64_t seed) {
  Draws draws(seed);
  for (;;) {
    if (std::optional<Drawn> drawn = TryDraw(&draws)) return *std::move(drawn);
  }
}

// Steps of a job without faults, times 20.
uint64_t StepsMax(const cluster::TrainingJob& job) {
  uint64_t messages = 0;
  for (const auto& [samples, program] : job.team->plan.steps) messages = program.messages.size();
  const uint64_t a_clock =
      messages + uint64_t{8} * job.layout->shard_count() * job.team->shape.seats + 20;
  return 20 * (500 + job.team->shape.teams * a_clock * static_cast<uint64_t>(job.total_clocks + 2));
}

struct SeedRun {
  std::string name;
  sim::WalkReport report;
  TeamWorld::Told told;
  std::vector<uint64_t> read_lags;
};

SeedRun RunTeamSeed(uint64_t seed, TeamMutant mutant = TeamMutant::kNone, size_t trace_lines = 0) {
  const Drawn drawn = DrawOf(seed);
  TeamWorld world({.job = drawn.job,
                   .faults = drawn.faults,
                   .slow_scheduler = true,
                   .may_end = drawn.may_end,
                   .mutant = mutant});
  SeedRun run = {.name = drawn.name};
  sim::Walk({.fault_probability = drawn.fault_probability,
             .steps_max = StepsMax(*drawn.job),
             .trace_lines = trace_lines},
            seed, &world, &run.report);
  run.told = world.told();
  run.read_lags = world.truth().read_lags();
  return run;
}

uint64_t SeedsOr(uint64_t otherwise) {
  const char* wanted = std::getenv("SOAPSTONE_SEEDS");
  return wanted == nullptr ? otherwise : std::strtoull(wanted, nullptr, 10);
}

constexpr uint64_t kParts = 4;  // that run beside each other

// Seeds of one part hold; and what should happen in them does.
void ExpectSeedsHold(uint64_t part, uint64_t seeds) {
  TeamWorld::Told all;
  uint64_t runs = 0, steps = 0, lagging = 0, early = 0;
  for (uint64_t seed = 1 + part; seed <= seeds; seed += kParts) {
    const SeedRun run = RunTeamSeed(seed);
    if (run.report.violation.has_value()) {
      FAIL() << run.name << ", " << RunTeamSeed(seed, TeamMutant::kNone, 60).report.ToString();
    }
    ++runs;
    steps += run.report.steps;
    early += run.told.ended_early ? 1 : 0;
    all.teams_lost += run.told.teams_lost;
    all.teams_back += run.told.teams_back;
    all.former_blocks += run.told.former_blocks;
    all.former_words += run.told.former_words;
    all.newcomers_lost += run.told.newcomers_lost;
    all.lost_at_the_end += run.told.lost_at_the_end;
    for (size_t lag = 1; lag < run.read_lags.size(); ++lag) lagging += run.read_lags[lag];
  }
  std::printf(
      "%llu seeds, %llu steps: %llu teams lost, %llu of them at the end, %llu let in again, %llu "
      "newcomers lost, %llu blocks and %llu words to shards of former seats, %llu reads that lag, "
      "%llu jobs that end early\n",
      static_cast<unsigned long long>(runs), static_cast<unsigned long long>(steps),
      static_cast<unsigned long long>(all.teams_lost),
      static_cast<unsigned long long>(all.lost_at_the_end),
      static_cast<unsigned long long>(all.teams_back),
      static_cast<unsigned long long>(all.newcomers_lost),
      static_cast<unsigned long long>(all.former_blocks),
      static_cast<unsigned long long>(all.former_words), static_cast<unsigned long long>(lagging),
      static_cast<unsigned long long>(early));
  if (runs < 40) return;
  EXPECT_GT(all.teams_lost, runs / 4);
  EXPECT_GT(all.teams_back, 0u);
  EXPECT_GT(all.former_words, 0u);
  EXPECT_GT(early, 0u);
  EXPECT_GT(lagging, runs);
  if (runs < 400) return;
  EXPECT_GT(all.former_blocks, 0u);
  EXPECT_GT(all.newcomers_lost, 0u);
  EXPECT_GT(all.lost_at_the_end, 0u);
}

class TeamSeeds : public testing::TestWithParam<uint64_t> {};
TEST_P(TeamSeeds, Hold) { ExpectSeedsHold(GetParam(), SeedsOr(400)); }
INSTANTIATE_TEST_SUITE_P(Parts, TeamSeeds, testing::Range(uint64_t{0}, kParts));

TEST(TeamSeedsAtLarge, Hold) {
  for (uint64_t part = 0; part < kParts; ++part) ExpectSeedsHold(part, SeedsOr(4'000));
}

TEST(TeamSeedsMutants, Die) {
  const struct {
    TeamMutant mutant;
    const char* name;
  } rows[] = {{TeamMutant::kOrdersWait, "orders that wait for each other"},
              {TeamMutant::kEarlyLoad, "computes with old parameters"},
              {TeamMutant::kNoStash, "backward with newer parameters"},
              {TeamMutant::kTooFar, "runs ahead beyond the bound"},
              {TeamMutant::kLeadForgottenBySeats, "seats forget the lead"},
              {TeamMutant::kBlockTwice, "a block passes for the next clock's"},
              {TeamMutant::kFormerBlock, "a block of a former team is taken"},
              {TeamMutant::kFirstPush, "the first push is the team's"},
              {TeamMutant::kFirstPull, "the first pull is the team's"},
              {TeamMutant::kAsTheyCome, "sums in the order of arrival"},
              {TeamMutant::kEachFresh, "fresh values are sent to a team that has begun"},
              {TeamMutant::kNoLocalStep, "a local step is not made"},
              {TeamMutant::kUpdatesLost, "a shard loses updates"},
              {TeamMutant::kLeadForgotten, "shards forget the lead"},
              {TeamMutant::kFormerPush, "a push of a former seat is taken"}};
  for (const auto& row : rows) {
    std::string found;
    uint64_t seed = 0;
    while (found.empty() && seed < 3'000) {
      found = RunTeamSeed(++seed, row.mutant).report.violation.value_or("");
    }
    EXPECT_FALSE(found.empty()) << row.name << " lives";
    std::printf("%-36s seed %llu: %s\n", row.name, static_cast<unsigned long long>(seed),
                found.c_str());
  }
}

TEST(TeamSeedsWalk, ASeedIsAWalk) {
  const auto once = RunTeamSeed(5, TeamMutant::kNone, 60),
             again = RunTeamSeed(5, TeamMutant::kNone, 60);
  EXPECT_EQ(once.report.trace, again.report.trace);
  EXPECT_NE(once.report.trace, RunTeamSeed(6, TeamMutant::kNone, 60).report.trace);
}

}  // namespace
}  // namespace soapstone::check
