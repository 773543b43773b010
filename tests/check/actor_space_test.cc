// Every interleaving of small clusters of the shipped actors (coordinator, shards, engines), with
// crash, leave, join and duplicate in the menu; and mutants that must not survive.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "sim/explore.h"
#include "sim/fault_world.h"
#include "tests/check/equal_futures.h"
#include "tests/check/mutant_table.h"

namespace soapstone::sim {
namespace {

WorldOptions Small(const std::string& policy, Clock clocks, FaultBudget faults) {
  return {.shape = {.workers = 2,
                    .shards = 1,
                    .policy = *consistency::ParsePolicy(policy),
                    .clocks = clocks,
                    .micro_batch_count = 4},
          .faults = faults,
          .start_registered = true,
          .instant_device = true};
}

const char* const kPolicies[] = {"bsp",
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
                                 "backup:b=1",
                                 "tree:group=1,s=1",
                                 "tree:group=2,s=0"};

// 60,000, or as many as SOAPSTONE_STATES says: the long campaign.
uint64_t StatesMax() {
  const char* wanted = std::getenv("SOAPSTONE_STATES");
  return wanted == nullptr ? 60'000 : std::strtoull(wanted, nullptr, 10);
}

void ExpectClean(const std::string& name, const WorldOptions& options, bool complete,
                 uint64_t states_min = 0) {
  const ExploreReport report =
      Explore(*World::Make(options), {.states_max = std::max(StatesMax(), states_min)});
  EXPECT_FALSE(report.violation.has_value()) << name << ": " << report.ToString();
  if (complete) {
    EXPECT_TRUE(report.complete) << name << ": " << report.ToString();
  }
  EXPECT_GT(report.ends, 0u) << name;
  std::printf("%-24s %-22s %8llu states %9llu transitions %s\n", options.shape.policy.spec.c_str(),
              name.c_str(), static_cast<unsigned long long>(report.states),
              static_cast<unsigned long long>(report.transitions),
              report.complete ? "" : "(up to the budget)");
}

TEST(ActorSpaceTest, EveryInterleavingHolds) {
  for (const char* policy : kPolicies) {
    ExpectClean("no fault", Small(policy, 2, {}), true);
    ExpectClean("duplicate", Small(policy, 2, {.duplicates = 1}), true);
  }
}

// A tree of two groups has three shards, and more interleavings than the budget.
bool IsTree(const std::string& policy) { return policy.starts_with("tree"); }

TEST(ActorSpaceTest, EveryInterleavingWithACrashHolds) {
  for (const char* policy : kPolicies) {
    ExpectClean("crash", Small(policy, 2, {.crashes = 1}), !IsTree(policy));
  }
}

// A connection breaks anywhere, with what is under way, and goes on where it was.
TEST(ActorSpaceTest, EveryInterleavingWithABreakHolds) {
  for (const char* policy : kPolicies) {
    ExpectClean("break", Small(policy, 2, {.breaks = 1}), !IsTree(policy));
  }
}

// A worker and a shard cannot reach one another any more: the worker is counted out.
TEST(ActorSpaceTest, EveryInterleavingWithALostLinkHolds) {
  for (const char* policy : kPolicies) {
    ExpectClean("lost link", Small(policy, 2, {.losses = 1}), false);
  }
}

// What a job does that has neither sessions nor word of lost links: it stands still.
void ExpectHangs(const WorldOptions& space, const std::string& size) {
  for (const check::LinkMutant mutant : check::kLinkMutants) {
    const bool resume = mutant == check::LinkMutant::kNoResume;
    WorldOptions options = space;
    options.mutant = resume ? WorldMutant::kNoResume : WorldMutant::kNoLinkLost;
    options.faults = resume ? FaultBudget{.breaks = 1} : FaultBudget{.losses = 1};
    const ExploreReport report =
        Explore(*World::Make(options), {.states_max = check::kStatesToHang});
    const std::string& spec = options.shape.policy.spec;
    ASSERT_TRUE(report.violation.has_value()) << spec << " lives: " << report.ToString();
    check::PrintHang("actor", spec, size, mutant, report.states, *report.violation);
  }
}

TEST(ActorSpaceTest, WithoutResumeOrWordOfLossTheJobHangs) {
  for (const char* policy : kPolicies) ExpectHangs(Small(policy, 2, {}), "P=2");
}

// The catalogue's trees, of two groups.
TEST(ActorSpaceTest, TreesHoldThroughBrokenAndLostConnections) {
  for (const std::string& spec : check::SpecsOf(check::Space::kTree)) {
    WorldOptions space = Small(spec, check::FindRow(spec)->bound + 2, {});
    space.shape.workers = space.shape.policy.group() + 1;
    space.faults = {.breaks = 1};
    ExpectClean("break", space, false);
    space.faults = {.losses = 1};
    ExpectClean("lost link", space, false);
    ExpectHangs(space, absl::StrCat("P=", space.shape.workers));
  }
}

// The scheduler's timers come at any moment: a worker that lives is counted out for its silence and
// goes on until it is told, and what is waited for has its deadline. A job may end by that, with
// the code of who was lost; what was promised until then is kept.
TEST(ActorSpaceTest, EveryInterleavingWithATimerHolds) {
  // Who is counted out acts beside the others: more than 60,000 states of two clocks, for each.
  constexpr uint64_t kStates = 12'000;
  for (const char* policy : kPolicies) {
    for (const FaultBudget& faults :
         {FaultBudget{.timers = 1}, FaultBudget{.joins = 1, .timers = 1}}) {
      const WorldOptions options = Small(policy, faults.joins > 0 ? 1 : 2, faults);
      const ExploreReport report = Explore(
          *World::Make(options), {.states_max = StatesMax() == 60'000 ? kStates : StatesMax()});
      EXPECT_FALSE(report.violation.has_value()) << policy << ": " << report.ToString();
      EXPECT_GT(report.ends, 0u) << policy;
    }
  }
}

// A server that loses an answer: the worker's watch asks again. Without it the job hangs.
TEST(ActorSpaceTest, AForgottenAnswerIsAskedForAgain) {
  for (const char* policy : kPolicies) {
    WorldOptions options = Small(policy, 2, {.forgets = 1});
    const ExploreReport hangs = Explore(*World::Make(options), {.states_max = 1000});
    EXPECT_TRUE(hangs.violation.has_value()) << policy << " lives: " << hangs.ToString();
    options.watched = true;
    ExpectClean("forgotten answer", options, !IsTree(policy));
  }
}

TEST(ActorSpaceTest, TimersThatFireEarlyKillMutants) {
  const std::pair<const char*, WorldMutant> cases[] = {
      {"bsp", WorldMutant::kNoTakeover},
      {"ssp:s=0", WorldMutant::kNoRelease},
      {"localsgd:h=1", WorldMutant::kNoRelease},
      {"easgd:tau=1,mode=sync", WorldMutant::kNoRelease}};
  for (const auto& [policy, mutant] : cases) {
    WorldOptions options = Small(policy, 2, {.timers = 1});
    options.mutant = mutant;
    const ExploreReport report = Explore(*World::Make(options), {.states_max = 60'000});
    EXPECT_TRUE(report.violation.has_value()) << policy << " lives: " << report.ToString();
    std::printf("%-24s timer: dies after %llu states: %s\n", policy,
                static_cast<unsigned long long>(report.states),
                report.violation.value_or("LIVES").c_str());
  }
}

TEST(ActorSpaceTest, EveryInterleavingWithALeaveHolds) {
  for (const char* policy : kPolicies) {
    ExpectClean("leave", Small(policy, 2, {.leaves = 1}), !IsTree(policy));
  }
}

// A device answers in its own time: a choice of its own between all others. `instant_device`, which
// the larger spaces need, hides schedules in which a worker computes while others act.
TEST(ActorSpaceTest, EveryInterleavingOfDevicesHolds) {
  for (const char* policy : {"bsp", "ssp:s=1", "easgd:tau=1,mode=sync", "essp:s=1", "localsgd:h=1",
                             "softsync:n=1", "value:v0=1", "backup:b=1"}) {
    WorldOptions options = Small(policy, 2, {});
    options.instant_device = false;
    options.shape.micro_batch_count = 2;
    ExpectClean("devices", options, true);
  }
}

// bsp through each fault to the end, every device a choice. Clocks reach bound + 2.
TEST(ActorSpaceTest, BspHoldsThroughEveryFaultWithDevices) {
  const std::pair<const char*, FaultBudget> faults[] = {{"devices, duplicate", {.duplicates = 1}},
                                                        {"devices, leave", {.leaves = 1}},
                                                        {"devices, crash", {.crashes = 1}}};
  for (const auto& [name, budget] : faults) {
    WorldOptions options = Small("bsp", 2, budget);
    options.instant_device = false;
    options.shape.micro_batch_count = 2;
    ExpectClean(name, options, true, /*states_min=*/600'000);
    options.claimed = options.shape.policy;
    for (const server::StoreFault fault :
         {server::StoreFault::kDropsUpdates, server::StoreFault::kDoublesUpdates}) {
      options.shape.store_fault = fault;
      EXPECT_TRUE(Explore(*World::Make(options), {}).violation.has_value()) << name;
    }
  }
}

// The mutants of a tree's row (mutant_table.h), two groups, in the spaces of its faults.
TEST(ActorSpaceTest, MutantsOfTreesDieInEveryFaultSpace) {
  for (const std::string spec : {"tree:group=2,s=1", "tree:group=3,s=0"}) {
    const check::MutantRow* row = check::FindRow(spec);
    ASSERT_NE(row, nullptr);
    const consistency::PolicyTraits claimed = *consistency::ParsePolicy(spec);
    for (const auto& [name, faults] : {std::pair("crash", FaultBudget{.crashes = 1}),
                                       std::pair("leave", FaultBudget{.leaves = 1}),
                                       std::pair("duplicate", FaultBudget{.duplicates = 1})}) {
      WorldOptions space = Small(spec, row->bound + 2, faults);
      space.shape.workers = claimed.group() + 1;
      space.claimed = claimed;
      EXPECT_FALSE(Explore(*World::Make(space), {.states_max = 5'000}).violation.has_value());
      for (const check::GuaranteeMutant mutant : row->mutants) {
        WorldOptions options = space;
        if (mutant == check::GuaranteeMutant::kBoundPlusOne) {
          *check::BoundOf(&options.shape.policy.gate) += 1;
        }
        if (mutant == check::GuaranteeMutant::kOneShardGate) continue;  // the root is one shard
        if (mutant == check::GuaranteeMutant::kUpdateLost) {
          options.shape.store_fault = server::StoreFault::kDropsUpdates;
        } else if (mutant == check::GuaranteeMutant::kUpdateTwice) {
          options.shape.store_fault = server::StoreFault::kDoublesUpdates;
        }
        const ExploreReport report = Explore(*World::Make(options), {.states_max = 200'000});
        EXPECT_TRUE(report.violation.has_value())
            << check::Name(mutant) << " lives in " << spec << ", " << name;
        std::printf("  %-24s %-10s %-18s dead after %llu states: %s\n", spec.c_str(), name,
                    check::Name(mutant).c_str(), static_cast<unsigned long long>(report.states),
                    report.violation.value_or("").c_str());
      }
    }
  }
}

// Worlds that are taken for one have one future; a print that forgets a field is found out.
TEST(ActorSpaceTest, EqualPrintsHaveEqualFutures) {
  for (const char* policy : kPolicies) {
    WorldOptions options =
        Small(policy, 2, {.crashes = 1, .duplicates = 1, .breaks = 1, .losses = 1, .timers = 1});
    const check::FuturesOptions few = {.states_max = 800, .pairs_max = 150};
    const auto report = check::CompareFutures(*World::Make(options), few);
    EXPECT_FALSE(report.difference.has_value()) << policy << ": " << *report.difference;
    EXPECT_GT(report.pairs, 50u) << policy;
    options.mutant = WorldMutant::kForgetfulPrint;
    const auto forgetful = check::CompareFutures(*World::Make(options), few);
    EXPECT_TRUE(forgetful.difference.has_value()) << policy;
  }
}

// With two shards, which agree on each round.
TEST(ActorSpaceTest, EveryInterleavingOfShardsThatChooseHolds) {
  for (const Clock clocks : {1, 2}) {
    WorldOptions options = Small("backup:b=1", clocks, {});
    options.shape.shards = 2;
    ExpectClean("two shards", options, true);
  }
  WorldOptions crash = Small("backup:b=1", 1, {.crashes = 1});
  crash.shape.shards = 2;
  ExpectClean("two shards, crash", crash, false);
}

// Two transfer stages of a shard each: the next values are asked for shard by shard, and loaded one
// by one.
WorldOptions Staged(const std::string& policy, Clock clocks, FaultBudget faults) {
  WorldOptions options = Small(policy, clocks, faults);
  options.shape.shards = options.shape.transfer_stages = 2;
  options.shape.micro_batch_count = 2;
  return options;
}

TEST(ActorSpaceTest, EveryInterleavingOfStagesHolds) {
  for (const char* policy : {"bsp", "ssp:s=0", "ssp:s=1", "async"}) {
    ExpectClean("stages", Staged(policy, 2, {}), true);
  }
  ExpectClean("stages, crash", Staged("bsp", 2, {.crashes = 1}), false);
  ExpectClean("stages, leave", Staged("bsp", 2, {.leaves = 1}), false);
}

// Checkers that hold the actors to more than they promise find that out.
TEST(ActorSpaceTest, ClaimsThatAreTooStrongAreRefuted) {
  const std::pair<const char*, const char*> cases[] = {{"ssp:s=1", "ssp:s=0"},
                                                       {"tree:group=1,s=1", "tree:group=1,s=0"},
                                                       {"backup:b=1", "backup:b=0"}};
  for (const auto& [policy, claim] : cases) {
    WorldOptions options = Small(policy, 3, {});
    options.claimed = *consistency::ParsePolicy(claim);
    const ExploreReport report = Explore(*World::Make(options), {.states_max = 60'000});
    EXPECT_TRUE(report.violation.has_value()) << policy << " passes for " << claim;
    std::printf("%-24s as %-18s %8llu states  %s\n", policy, claim,
                static_cast<unsigned long long>(report.states),
                report.violation.value_or("PASSED").c_str());
  }
}

TEST(ActorSpaceTest, CrashThenJoinHolds) {
  for (const char* policy : kPolicies) {
    ExpectClean("crash and join", Small(policy, 1, {.crashes = 1, .joins = 1}), false);
  }
}

// Word of the lost link to who crashed may come when somebody else has the rank.
TEST(ActorSpaceTest, LateWordOfAFormerHolderIsNotOfThePresentOne) {
  const WorldOptions space = Small("bsp", 1, {.crashes = 1, .joins = 1, .late_words = 1});
  ExpectClean("crash, join, late word", space, false);
  WorldOptions mutant = space;
  mutant.mutant = WorldMutant::kLateWordTaken;
  const ExploreReport report = Explore(*World::Make(mutant), {.states_max = StatesMax()});
  EXPECT_TRUE(report.violation.has_value()) << "survived: " << report.ToString();
}

struct MutantCase {
  const char* name;
  WorldMutant mutant;
  const char* policy;
  FaultBudget faults;
};

// By exhaustive exploration; the same space without the mutant is clean.
TEST(ActorSpaceTest, EveryMutantIsKilled) {
  const MutantCase cases[] = {
      {"duplicate push applied twice", WorldMutant::kDuplicateUnseen, "async", {.duplicates = 1}},
      {"uncounted clock on its own channel", WorldMutant::kUncountedClock, "ssp:s=0", {}},
      {"lost micro-batches are not taken over", WorldMutant::kNoTakeover, "bsp", {.crashes = 1}},
      {"a loss does not wake the parked", WorldMutant::kNoRelease, "ssp:s=0", {.crashes = 1}},
  };
  std::printf("%-36s %8s  %s\n", "mutant", "states", "killed by");
  for (const MutantCase& c : cases) {
    WorldOptions options = Small(c.policy, 2, c.faults);
    ExpectClean("without the mutant", options, false);
    options.mutant = c.mutant;
    const ExploreReport report = Explore(*World::Make(options), {.states_max = 60'000});
    EXPECT_TRUE(report.violation.has_value()) << c.name << " survived";
    std::printf("%-36s %8llu  %s\n", c.name, static_cast<unsigned long long>(report.states),
                report.violation.value_or("SURVIVED").c_str());
  }
}

// By seeds: the exploration's budget ends before it comes to a loss between the loads of a step.
TEST(ActorSpaceTest, LeavesOfMixedParametersAreFound) {
  SeedOptions options = {.world = Staged("bsp", 4, {.crashes = 1})};
  options.world.instant_device = false;
  uint64_t killed = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    options.world.mutant = WorldMutant::kNone;
    const SeedReport clean = *RunSeed(options, seed);
    EXPECT_FALSE(clean.violation.has_value()) << clean.ToString();
    options.world.mutant = WorldMutant::kNoReload;
    killed += RunSeed(options, seed)->violation.has_value() ? 1 : 0;
  }
  EXPECT_GT(killed, 0u);
}

// A clock that says how many pushes precede it may overtake them.
TEST(ActorSpaceTest, CountedClockOnItsOwnChannelIsSafe) {
  for (const char* policy : {"ssp:s=0", "ssp:s=1", "bsp"}) {
    WorldOptions options = Small(policy, 2, {});
    options.mutant = WorldMutant::kClockOvertakes;
    ExpectClean("clock overtakes", options, true);
  }
}

// The deadlock that seeds once found: a replacement let in while a shard was still behind its
// start, and then the last member that could supply that shard's round was lost.
TEST(ActorSpaceTest, ReplacementWaitsUntilEveryShardHasReachedItsStart) {
  for (uint64_t seed : {1236u, 1320u}) {
    const SeedReport report =
        *RunSeed({.world = {.shape = {.workers = 3,
                                      .shards = 2,
                                      .policy = *consistency::ParsePolicy("bsp"),
                                      .clocks = 6,
                                      .micro_batch_count = 4},
                            .faults = {.crashes = 2, .leaves = 1, .joins = 2, .duplicates = 3}}},
                 seed);
    EXPECT_FALSE(report.violation.has_value()) << report.ToString();
  }
}

}  // namespace
}  // namespace soapstone::sim
