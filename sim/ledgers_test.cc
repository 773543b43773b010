// Stores that do not keep their word, under the ledgers of shards, workers and peers: whatever the
// policy and whichever way a run goes, they are found out within two clocks.
#include <cstdio>

#include "base/random.h"
#include "consistency/catalogue.h"
#include "gtest/gtest.h"
#include "sim/fault_world.h"
#include "sim/peer_world.h"

namespace soapstone::sim {
namespace {

using server::StoreFault;

constexpr std::pair<const char*, StoreFault> kFaults[] = {
    {"drops updates", StoreFault::kDropsUpdates},
    {"doubles updates", StoreFault::kDoublesUpdates},
    {"reorders updates", StoreFault::kReordersUpdates},
    {"answers older", StoreFault::kAnswersOlder},
    {"final older", StoreFault::kFinalOlder},
};
constexpr uint64_t kSeeds = 5;
constexpr Clock kClocks = 2;

TEST(LedgersTest, AStoreThatBreaksItsWordIsFoundUnderEveryServerPolicy) {
  for (const std::string& policy : consistency::ExamplePolicies()) {
    for (const auto& [name, fault] : kFaults) {
      for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
        SeedOptions options;
        options.world.shape = {.workers = 3,
                               .shards = 2,
                               .policy = *consistency::ParsePolicy(policy),
                               .clocks = kClocks,
                               .store_fault = fault};
        const absl::StatusOr<SeedReport> report = RunSeed(options, seed);
        ASSERT_TRUE(report.ok()) << report.status();
        EXPECT_TRUE(report->violation.has_value()) << policy << " " << name << " seed " << seed;
        if (seed == 1) {
          std::printf("%-44s %-18s %s\n", policy.c_str(), name,
                      report->violation.value_or("SURVIVES").c_str());
        }
      }
    }
  }
}

std::string Walk(const PeerWorldOptions& options, uint64_t seed) {
  PeerWorld world = *PeerWorld::Make(options);
  const CounterRandom random(seed, RandomUse::kTest, 0);
  for (uint64_t draw = 0; !world.Finished() && !world.Violation().has_value(); ++draw) {
    const auto choices = world.Enabled();
    world.Do(choices[random.Below(draw, choices.size())]);
  }
  return world.Violation().value_or("");
}

TEST(LedgersTest, VectorsThatBreakTheirWordAreFoundUnderEveryPeerPolicy) {
  for (const std::string& policy : consistency::ExamplePeerPolicies()) {
    PeerWorldOptions options = {.policy = policy, .workers = 3, .clocks = kClocks};
    EXPECT_EQ(Walk(options, 1), "") << policy;
    // Peers' final reads are of shards, which this world has not.
    std::vector<std::pair<const char*, StoreFault>> faults(std::begin(kFaults),
                                                           std::end(kFaults) - 1);
    faults.emplace_back("older content", StoreFault::kOlderContent);
    faults.emplace_back("drops parcels", StoreFault::kDropsParcels);
    if (consistency::ParsePolicy(policy)->guarantee.same_replicas) {
      faults.emplace_back("loses parcels", StoreFault::kLosesParcels);
    }
    for (const auto& [name, fault] : faults) {
      options.store_fault = fault;
      for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
        const std::string found = Walk(options, seed);
        EXPECT_NE(found, "") << policy << " " << name << " seed " << seed;
        if (seed == 1) std::printf("%-44s %-18s %s\n", policy.c_str(), name, found.c_str());
      }
    }
  }
}

}  // namespace
}  // namespace soapstone::sim
