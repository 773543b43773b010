// Models that a strategy splits over workers, in one process: random strategies run by the shells,
// actors and kernels of the real cluster. SOAPSTONE_TEAMS sets how many.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "apps/node/inproc/inproc_job.h"
#include "strategy/machine_text.h"
#include "strategy/strategy_text.h"
#include "strategy/testing/random_strategies.h"
#include "wire/config/text_config.h"

// As in inproc_cluster_test.cc.
extern "C" const char* __tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_suppressions() {
  return "race:libdnnl.so\nrace:^dnnl::\nrace:google::LogMessageTime\n";
}

namespace soapstone::apps {
namespace {

constexpr uint32_t kBatch = 64;

int Teams(int by_default) {
  const char* const text = std::getenv("SOAPSTONE_TEAMS");
  if (text != nullptr) CHECK(absl::SimpleAtoi(text, &by_default));
  return by_default;
}

wire::JobConfig TeamConfig(uint32_t micro_batches, uint32_t servers, uint32_t workers,
                           uint32_t batch = kBatch) {
  wire::JobConfig config = InprocConfig("bsp", servers, workers);
  config.set_model("lenet5");
  config.set_strict(true);
  config.mutable_training()->set_epochs(batch / kBatch);  // as many steps
  config.mutable_training()->set_batch(batch);
  config.mutable_training()->set_micro_batches(micro_batches);
  return config;
}

// The planner's view of the model at the size of the data.
planner::OpGraph GraphOf(uint32_t micro_batches) {
  const auto job = PrepareJob(TeamConfig(micro_batches, 1, 1));
  CHECK(job.ok()) << job.status();
  return *planner::MakeOpGraph(*(*job)->graph, {.batch = kBatch, .micro_batches = micro_batches});
}

planner::Machine MachineOf(uint32_t devices) {
  const std::string text = absl::StrCat(
      "name: 'm' kinds { name: 'k' tflops: 1 memory_gbytes_per_s: 1 memory_gib: 1 }\n"
      "nodes { name: 'n' count: 1 devices: ",
      devices,
      " kind: 'k' servers: 1 mesh { gbytes_per_s: 1 } host { gbytes_per_s: 1 } "
      "server_apply_gbytes_per_s: 1 }");
  const auto machine = planner::ParseMachine(text, "test");
  CHECK(machine.ok()) << machine.status();
  return *machine;
}

class Team {
 public:
  Team(uint32_t seats, uint32_t micro_batches, uint32_t teams = 1)
      : seats_(seats), micro_batches_(micro_batches), teams_(teams) {}

  // in_flight: of the order that the file says; none: it says none.
  void Write(const planner::OpGraph& graph, planner::Strategy strategy,
             planner::Synchronization way = planner::Synchronization::kServers,
             std::optional<uint32_t> in_flight = std::nullopt) {
    planner::SetSynchronization(way, &strategy);
    wire::Strategy message = planner::MessageOf(graph, MachineOf(seats_), "none", strategy);
    if (in_flight.has_value()) {
      planner::SetOrder(graph, strategy,
                        planner::CanonicalOrder(graph, strategy, seats_, *in_flight), &message);
    }
    std::ofstream(path_) << wire::TextOf(message);
  }
  wire::JobConfig Config(uint32_t servers) const {
    wire::JobConfig config =
        TeamConfig(teams_ * micro_batches_, servers, teams_ * seats_, teams_ * kBatch);
    config.mutable_cluster()->set_teams(teams_);
    config.mutable_cluster()->clear_shards_per_server();
    config.mutable_cluster()->set_strategy(path_);
    return config;
  }
  // The hash, or what there is to say.
  std::string Run(uint32_t servers) const {
    InprocJob cluster(Config(servers));
    if (!AllZero(cluster.Run())) return cluster.reports().result().reason;
    const ResultReport result = cluster.reports().result();
    EXPECT_TRUE(cluster.Violations().empty());
    EXPECT_EQ(result.rejects + result.malformed, 0u);
    EXPECT_GT(result.test_accuracy, 0.5);
    return result.sha256;
  }

 private:
  const uint32_t seats_, micro_batches_, teams_;
  const std::string path_ =
      absl::StrCat(::testing::TempDir(), "team-", getpid(), ".strategy.textproto");
};

// All micro-batches of an operator are where its first is: sums along the tree are one seat's then.
planner::Strategy Together(const planner::OpGraph& graph, planner::Strategy strategy) {
  for (const std::vector<uint32_t>& ops : graph.groups) {
    for (const uint32_t op : ops) strategy.ops[op].devices = strategy.ops[ops.front()].devices;
  }
  return strategy;
}

// Whether workers take it: each has a part, and each part a sample of the last batch.
bool IsTaken(const Team& team) {
  const auto job = PrepareJob(team.Config(1));
  if (job.ok()) return true;
  const std::string why(job.status().message());
  EXPECT_TRUE(absl::StrContains(why, "nothing to do") || absl::StrContains(why, "divides") ||
              absl::StrContains(why, "would do"))
      << why;
  return false;
}

std::string WholeHash(uint32_t micro_batches, uint32_t teams) {
  InprocJob cluster(TeamConfig(teams * micro_batches, 1, 1, teams * kBatch));
  EXPECT_TRUE(AllZero(cluster.Run()));
  return cluster.reports().result().sha256;
}

TEST(InprocTeamTest, PlacementsHaveTheBitsOfOneProcess) {
  planner::Draws draws(1, 5);
  for (int made = 0; made < Teams(6);) {
    const auto seats = static_cast<uint32_t>(draws.Between(2, 4));
    // What a team sums is a node of the tree.
    const uint32_t teams = made % 2 == 0 ? 1 : static_cast<uint32_t>(draws.Between(2, 3));
    const auto micro_batches =
        static_cast<uint32_t>(teams == 1 ? draws.Between(1, 5) : 1 << draws.Between(0, 2));
    const planner::OpGraph graph = GraphOf(micro_batches);
    Team team(seats, micro_batches, teams);
    const planner::Strategy strategy =
        draws.Coin() ? planner::RandomPipeline(graph, seats, &draws)
                     : Together(graph, planner::RandomStrategy(
                                           graph, {.seats = seats, .splits = false}, &draws));
    // Whatever the order, and however many micro-batches are under way.
    team.Write(graph, strategy, planner::Synchronization::kServers,
               made % 2 == 0 ? std::nullopt : std::optional<uint32_t>(draws.Between(1, 3)));
    if (!IsTaken(team)) continue;
    EXPECT_EQ(team.Run(static_cast<uint32_t>(draws.Between(1, 2))), WholeHash(micro_batches, teams))
        << made;
    ++made;
  }
}

TEST(InprocTeamTest, SplitsHaveOneHashWhateverTheServers) {
  planner::Draws draws(2, 5);
  for (int made = 0; made < Teams(6);) {
    const auto seats = static_cast<uint32_t>(draws.Between(2, 4));
    const auto micro_batches = static_cast<uint32_t>(draws.Between(1, 3));
    const uint32_t teams = micro_batches == 3 ? 1 : static_cast<uint32_t>(draws.Between(1, 2));
    const planner::OpGraph graph = GraphOf(micro_batches);
    Team team(seats, micro_batches, teams);
    const planner::Strategy strategy =
        planner::RandomStrategy(graph, {.seats = seats, .parts_max = 4}, &draws);
    team.Write(graph, strategy);
    if (!IsTaken(team)) continue;
    const std::string once = team.Run(1);
    EXPECT_EQ(once.size(), 64u) << once;
    EXPECT_EQ(team.Run(3), once) << made;
    for (const auto way : {planner::Synchronization::kOwner, planner::Synchronization::kRing}) {
      team.Write(graph, strategy, way);
      EXPECT_EQ(team.Run(1), once) << made;  // of one server beside each worker, whatever is asked
    }
    ++made;
  }
}

}  // namespace
}  // namespace soapstone::apps
