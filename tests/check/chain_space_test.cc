// Every interleaving of small clusters of the shipped actors whose shards have replicas, where a
// server stops at any moment, or is counted out though it lives; and mutants that must not survive.
// What the checkers hold is what they hold without replicas: updates once, bounds, rounds, the end.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "sim/explore.h"
#include "sim/fault_world.h"
#include "tests/check/equal_futures.h"

namespace soapstone::sim {
namespace {

using server::ReplicaFault;
using worker::EngineFault;

// Flat policies of servers.
const char* const kChainPolicies[] = {"bsp",
                                      "ssp:s=0",
                                      "ssp:s=1",
                                      "async",
                                      "easgd:tau=1,mode=sync",
                                      "easgd:tau=1,mode=async",
                                      "essp:s=1",
                                      "dssp:lower=0,upper=1",
                                      "softsync:n=1",
                                      "value:v0=1",
                                      "localsgd:h=1",
                                      "dcasgd:lambda=1"};

uint64_t StatesMax(uint64_t everyday) {
  const char* wanted = std::getenv("SOAPSTONE_STATES");
  return wanted == nullptr ? everyday : std::strtoull(wanted, nullptr, 10);
}

// One shard; the other servers keep its replicas.
WorldOptions Chain(const std::string& policy, uint32_t workers, Clock clocks, uint32_t replicas,
                   FaultBudget faults) {
  return {.shape = {.workers = workers,
                    .replicas = replicas,
                    .idle_servers = replicas - 1,
                    .policy = *consistency::ParsePolicy(policy),
                    .clocks = clocks},
          .faults = faults,
          .start_registered = true,
          .instant_device = true,
          .watched = true};
}

ExploreReport ExpectClean(const std::string& name, const WorldOptions& options, uint64_t states) {
  ExploreReport report = Explore(*World::Make(options), {.states_max = StatesMax(states)});
  EXPECT_FALSE(report.violation.has_value())
      << options.shape.policy.spec << ", " << name << ": " << report.ToString();
  EXPECT_GT(report.ends, 0u) << name;
  std::printf("%-24s %-26s %8llu states %9llu transitions %s\n", options.shape.policy.spec.c_str(),
              name.c_str(), static_cast<unsigned long long>(report.states),
              static_cast<unsigned long long>(report.transitions),
              report.complete ? "" : "(up to the budget)");
  return report;
}

TEST(ChainSpaceTest, AServerThatStopsChangesNothing) {
  for (const char* policy : kChainPolicies) {
    ExpectClean("1 worker", Chain(policy, 1, 2, 2, {.server_crashes = 1}), 20'000);
    ExpectClean("2 workers", Chain(policy, 2, 1, 2, {.server_crashes = 1}), 20'000);
  }
}

// A head that lives on is heard by nobody.
TEST(ChainSpaceTest, AServerThatIsCountedOutAndLivesChangesNothing) {
  for (const char* policy : kChainPolicies) {
    ExpectClean("1 worker, suspected", Chain(policy, 1, 2, 2, {.server_suspects = 1}), 20'000);
    ExpectClean("2 workers, suspected", Chain(policy, 2, 1, 2, {.server_suspects = 1}), 20'000);
  }
}

TEST(ChainSpaceTest, ChainsOfThreeOutliveTwo) {
  for (const char* policy : {"bsp", "ssp:s=1", "softsync:n=1"}) {
    ExpectClean("3 replicas, crash", Chain(policy, 1, 1, 3, {.server_crashes = 1}), 20'000);
    ExpectClean("3 replicas, crash, crash", Chain(policy, 1, 1, 3, {.server_crashes = 2}), 20'000);
    ExpectClean("3 replicas, suspected, crash",
                Chain(policy, 1, 1, 3, {.server_crashes = 1, .server_suspects = 1}), 20'000);
  }
}

TEST(ChainSpaceTest, WithOtherFaultsBeside) {
  for (const char* policy : kChainPolicies) {
    for (FaultBudget faults : {FaultBudget{.crashes = 1}, FaultBudget{.leaves = 1, .joins = 1},
                               FaultBudget{.duplicates = 1}, FaultBudget{.breaks = 1}}) {
      faults.server_crashes = 1;
      ExpectClean("2 workers, and another", Chain(policy, 2, 2, 2, faults), 4'000);
    }
  }
}

// Two shards, each other's followers.
TEST(ChainSpaceTest, TwoShardsHold) {
  for (const char* policy : kChainPolicies) {
    WorldOptions options = Chain(policy, 1, 1, 2, {.server_crashes = 1});
    options.shape.shards = 2;
    options.shape.idle_servers = 0;
    ExpectClean("2 shards, 1 worker", options, 12'000);
  }
}

// Larger ones by seeds.
TEST(ChainSpaceTest, SeedsHold) {
  uint64_t ended = 0;
  for (const char* policy : kChainPolicies) {
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      const uint32_t replicas = 2 + seed % 2;
      SeedOptions options = {.world = Chain(policy, 3, 6, replicas,
                                            {.crashes = 1,
                                             .joins = 1,
                                             .duplicates = 2,
                                             .breaks = 1,
                                             .server_crashes = replicas - 1,
                                             .server_suspects = seed % 4 == 0 ? 1u : 0u})};
      options.world.shape.shards = 3;
      options.world.shape.idle_servers = 0;
      options.world.shape.micro_batch_count = 4;
      options.world.start_registered = false;
      options.world.instant_device = seed % 3 == 0;
      const SeedReport report = *RunSeed(options, seed);
      EXPECT_FALSE(report.violation.has_value())
          << policy << " seed " << seed << ": " << report.ToString();
      ended += report.violation.has_value() ? 0 : 1;
    }
  }
  EXPECT_EQ(ended, 200 * std::size(kChainPolicies));
}

struct ChainMutant {
  const char* name;
  ReplicaFault replica;
  EngineFault engine;
  FaultBudget faults;
  uint32_t workers = 1;
  uint32_t replicas = 2;
};

// In spaces that are clean without them.
TEST(ChainSpaceTest, EveryMutantIsKilled) {
  const FaultBudget crash = {.server_crashes = 1}, suspect = {.server_suspects = 1};
  const ChainMutant mutants[] = {
      {"answers before the chain has it", ReplicaFault::kSaidBeforeAck, EngineFault::kNone, crash},
      {"alone unasked", ReplicaFault::kAloneUnasked, EngineFault::kNone, suspect},
      {"what is early is dropped", ReplicaFault::kEarlyDropped, EngineFault::kNone, crash},
      {"not said again to who is next", ReplicaFault::kNotSaidAgain, EngineFault::kNone, crash, 1,
       3},
      {"rosters in no record", ReplicaFault::kRosterUnlogged, EngineFault::kNone, crash},
      {"the pull alone is said again", ReplicaFault::kNone, EngineFault::kPullAlone, crash},
      {"nothing is said again", ReplicaFault::kNone, EngineFault::kNothing, crash},
      {"a former head's answer is taken", ReplicaFault::kNone, EngineFault::kFormerHead, crash}};
  for (const ChainMutant& mutant : mutants) {
    for (const char* policy : {"bsp", "ssp:s=0"}) {
      WorldOptions options = Chain(policy, mutant.workers, 2, mutant.replicas, mutant.faults);
      const uint64_t states = 60'000;
      EXPECT_FALSE(Explore(*World::Make(options), {.states_max = 3'000}).violation.has_value());
      options.shape.replica_fault = mutant.replica;
      options.shape.engine_fault = mutant.engine;
      const ExploreReport report = Explore(*World::Make(options), {.states_max = states});
      EXPECT_TRUE(report.violation.has_value()) << mutant.name << " lives under " << policy;
      std::printf("%-34s %-8s dead after %6llu states: %s\n", mutant.name, policy,
                  static_cast<unsigned long long>(report.states),
                  report.violation.value_or("LIVES").c_str());
    }
  }
}

TEST(ChainSpaceTest, EqualPrintsHaveEqualFutures) {
  for (const char* policy : {"bsp", "ssp:s=1"}) {
    WorldOptions options =
        Chain(policy, 2, 1, 2, {.duplicates = 1, .server_crashes = 1, .server_suspects = 1});
    const check::FuturesOptions few = {.states_max = 800, .pairs_max = 150};
    const auto report = check::CompareFutures(*World::Make(options), few);
    EXPECT_FALSE(report.difference.has_value()) << policy << ": " << *report.difference;
    EXPECT_GT(report.pairs, 20u) << policy;
  }
}

}  // namespace
}  // namespace soapstone::sim
