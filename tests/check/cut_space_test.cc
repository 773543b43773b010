// Every interleaving of small clusters of the shipped actors that are asked, at any moment, for
// checkpoints at aligned cuts, or to end with one (sim/world/world_cut.h); with crashes, leaves,
// joins, and with orders and answers that come twice, late, or never; and mutants that must not
// survive.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "sim/explore.h"
#include "sim/fault_world.h"

namespace soapstone::sim {
namespace {

WorldOptions Small(const std::string& policy, CutKind cut, FaultBudget faults, uint32_t shards = 1,
                   Clock clocks = 2) {
  return {.shape = {.workers = 2,
                    .shards = shards,
                    .policy = *consistency::ParsePolicy(policy),
                    .clocks = clocks,
                    .micro_batch_count = 2},
          .faults = faults,
          .start_registered = true,
          .instant_device = true,
          .watched = true,
          .cut = cut};
}

// Those that have checkpoints. Under the first a round is its own marker, and only an end has a
// bound.
const char* const kPolicies[] = {"bsp",          "ssp:s=0",    "ssp:s=1",
                                 "async",        "essp:s=1",   "dssp:lower=0,upper=1",
                                 "softsync:n=1", "value:v0=1", "dcasgd:lambda=0.04,m=0"};

// 60,000, or 25,000 of each of many spaces that are larger; or as many as SOAPSTONE_STATES says:
// the long campaign.
uint64_t StatesMax(bool complete) {
  const char* wanted = std::getenv("SOAPSTONE_STATES");
  if (wanted == nullptr) return complete ? 60'000 : 25'000;
  return std::strtoull(wanted, nullptr, 10);
}

ExploreReport Tried(const std::string& name, const WorldOptions& options, bool complete) {
  ExploreReport report = Explore(*World::Make(options), {.states_max = StatesMax(complete)});
  std::printf("%-24s %-34s %8llu states %9llu transitions %s\n", options.shape.policy.spec.c_str(),
              name.c_str(), static_cast<unsigned long long>(report.states),
              static_cast<unsigned long long>(report.transitions),
              report.violation.has_value() ? report.violation->c_str()
              : report.complete            ? ""
                                           : "(up to the budget)");
  return report;
}

void ExpectClean(const std::string& name, const WorldOptions& options, bool complete) {
  const ExploreReport report = Tried(name, options, complete);
  EXPECT_FALSE(report.violation.has_value())
      << options.shape.policy.spec << ", " << name << ": " << report.ToString();
  if (complete) {
    EXPECT_TRUE(report.complete) << options.shape.policy.spec << ", " << name;
  }
  EXPECT_GT(report.ends, 0u) << name;
}

constexpr std::pair<const char*, CutKind> kCuts[] = {{"checkpoints", CutKind::kCheckpoints},
                                                     {"end", CutKind::kEnd}};

TEST(CutSpaceTest, EveryInterleavingHolds) {
  for (const char* policy : kPolicies) {
    for (const auto& [name, cut] : kCuts) ExpectClean(name, Small(policy, cut, {}), true);
  }
}

TEST(CutSpaceTest, EveryInterleavingOfTwoShardsHolds) {
  for (const char* policy : {"ssp:s=0", "ssp:s=1", "softsync:n=1", "value:v0=1"}) {
    for (const auto& [name, cut] : kCuts) {
      ExpectClean(absl::StrCat(name, ", two shards"), Small(policy, cut, {}, 2, 2), false);
    }
  }
}

TEST(CutSpaceTest, EveryInterleavingWithAFaultHolds) {
  const std::pair<const char*, FaultBudget> faults[] = {
      {"crash", {.crashes = 1}},        {"leave", {.leaves = 1}},
      {"duplicate", {.duplicates = 1}}, {"forgotten", {.forgets = 1}},
      {"lost link", {.losses = 1}},     {"crash and join", {.crashes = 1, .joins = 1}},
  };
  for (const char* policy : kPolicies) {
    for (const auto& [cut_name, cut] : kCuts) {
      for (const auto& [fault, budget] : faults) {
        ExpectClean(absl::StrCat(cut_name, ", ", fault), Small(policy, cut, budget), false);
      }
    }
  }
}

struct MutantCase {
  const char* name;
  WorldMutant mutant;
  const char* policy;
  CutKind cut;
};

TEST(CutSpaceTest, EveryMutantIsKilled) {
  const MutantCase cases[] = {
      {"a shard is captured early", WorldMutant::kCapturesEarly, "bsp", CutKind::kEnd},
      {"a shard is captured early", WorldMutant::kCapturesEarly, "async", CutKind::kEnd},
      {"bound workers begin", WorldMutant::kBeginsThoughBound, "async", CutKind::kCheckpoints},
      {"bound workers begin, unseen", WorldMutant::kBeginsUnseen, "async", CutKind::kCheckpoints},
      {"bound workers begin, unseen", WorldMutant::kBeginsUnseen, "ssp:s=1", CutKind::kEnd},
      {"a release is never heard", WorldMutant::kNeverReleased, "ssp:s=0", CutKind::kCheckpoints},
  };
  for (const MutantCase& c : cases) {
    WorldOptions options = Small(c.policy, c.cut, {}, 1, 3);
    ExpectClean("without the mutant", options, false);
    options.mutant = c.mutant;
    const ExploreReport report = Tried(c.name, options, true);
    EXPECT_TRUE(report.violation.has_value()) << c.name << " survived under " << c.policy;
  }
}

// Of five workers two by two are applied: at an odd clock one update is held back.
TEST(CutSpaceTest, WhatIsHeldBackIsInTheCut) {
  uint64_t killed = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SeedOptions options = {.world = Small("softsync:n=2", CutKind::kEnd, {}, 1, 4)};
    options.world.shape.workers = options.world.shape.micro_batch_count = 5;
    const SeedReport clean = *RunSeed(options, seed);
    EXPECT_FALSE(clean.violation.has_value()) << clean.ToString();
    options.world.mutant = WorldMutant::kNeverDrained;
    killed += RunSeed(options, seed)->violation.has_value() ? 1 : 0;
  }
  EXPECT_GT(killed, 0u);
}

// Larger ones, at random, with every fault.
TEST(CutSpaceTest, SeedsHold) {
  uint64_t captured = 0;
  for (const char* policy : kPolicies) {
    for (const auto& [name, cut] : kCuts) {
      for (uint64_t seed = 1; seed <= 40; ++seed) {
        SeedOptions options = {.world = Small(policy, cut, {}, 2, 6)};
        options.world.shape.workers = options.world.shape.micro_batch_count = 3;
        options.world.instant_device = false;
        options.world.faults = {
            .crashes = 1, .leaves = 1, .joins = 2, .duplicates = 3, .breaks = 1, .forgets = 1};
        const SeedReport report = *RunSeed(options, seed);
        EXPECT_FALSE(report.violation.has_value())
            << policy << ", " << name << ", seed " << seed << ": " << report.ToString();
        captured += report.captured;
      }
    }
  }
  EXPECT_GT(captured, 1000u);
}

}  // namespace
}  // namespace soapstone::sim
