// Every reachable state of the shipped policy objects, and mutants that must not survive.
#include "tests/check/policy_space.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/steady_clock.h"
#include "gtest/gtest.h"
#include "tests/check/equal_futures.h"
#include "tests/check/mutant_table.h"

namespace soapstone::check {
namespace {

// Shards of backup talk to each other: backup_space_test.cc. So do those of a tree of servers:
// actor_space_test.cc.
std::vector<std::string> Policies() { return SpecsOf(Space::kPolicy); }

void ExpectClean(const SpaceOptions& options) {
  const SpaceReport report = ExploreSpace(options);
  EXPECT_TRUE(report.violations.empty())
      << options.policy << ": " << absl::StrJoin(report.violations, ", ");
  EXPECT_EQ(report.bad_reads, 0u);
  std::printf("%-32s P=%u K=%u clocks<=%d: %llu states, %llu transitions, lag %d, gap %d\n",
              options.policy.c_str(), options.workers, options.shards,
              static_cast<int>(options.clocks), static_cast<unsigned long long>(report.states),
              static_cast<unsigned long long>(report.transitions), static_cast<int>(report.lag_max),
              static_cast<int>(report.gap_max));
}

uint64_t States(std::string policy, uint32_t workers, uint32_t shards, Clock clocks) {
  const SpaceReport report = ExploreSpace(
      {.policy = std::move(policy), .workers = workers, .shards = shards, .clocks = clocks});
  EXPECT_TRUE(report.violations.empty());
  return report.states;
}

// The counts of the survey's independent model: equal, so the shipped object and that model
// admit the same behaviours.
TEST(PolicySpaceTest, SspHasTheStatesOfTheSpecification) {
  EXPECT_EQ(States("ssp:s=0", 2, 1, 4), 61u);
  EXPECT_EQ(States("ssp:s=1", 2, 1, 4), 211u);
  EXPECT_EQ(States("ssp:s=1", 3, 1, 4), 2059u);
  EXPECT_EQ(States("ssp:s=2", 2, 2, 4), 10721u);
  EXPECT_EQ(States("ssp:s=1", 3, 2, 3), 56346u);
}

TEST(PolicySpaceTest, BoundIsReachedExactly) {
  for (Clock s = 0; s <= 2; ++s) {
    const SpaceReport report = ExploreSpace({.policy = absl::StrCat("ssp:s=", s)});
    EXPECT_EQ(report.lag_max, s);
    EXPECT_EQ(report.gap_max, s + 1);
  }
}

TEST(PolicySpaceTest, SspWithoutBoundBehavesAsAsync) {
  EXPECT_EQ(States("ssp:s=1000", 2, 2, 3), States("async", 2, 2, 3));
}

TEST(PolicySpaceTest, SynchronousEasgdHasTheRoundsOfBsp) {
  EXPECT_EQ(States("easgd:tau=1,mode=sync", 3, 2, 3), States("bsp", 3, 2, 3));
}

TEST(PolicySpaceTest, DegeneratePoliciesHaveTheStatesOfWhatTheyDegenerateTo) {
  const auto states = [](std::string policy) {
    const SpaceReport report = ExploreSpace(
        {.policy = std::move(policy), .workers = 3, .shards = 1, .clocks = 4, .parking = true});
    EXPECT_TRUE(report.violations.empty());
    return std::pair(report.states, report.transitions);
  };
  EXPECT_EQ(states("dssp:lower=1,upper=1"), states("ssp:s=1"));
  EXPECT_EQ(states("psp:sample=2,s=1"), states("ssp:s=1"));
  EXPECT_EQ(states("pssp:s=1,p=1"), states("ssp:s=1"));
  EXPECT_EQ(states("pssp:s=1,p=0"), states("async"));
  EXPECT_EQ(states("softsync:n=3"), states("async"));
  EXPECT_EQ(states("dcasgd:lambda=0"), states("async"));
  EXPECT_EQ(states("localsgd:h=1"), states("easgd:tau=1,mode=sync"));
}

TEST(PolicySpaceTest, EveryPolicyKeepsItsGuarantee) {
  for (const std::string& policy : Policies()) {
    ExpectClean({.policy = policy, .workers = 2, .shards = 2, .clocks = 3, .parking = true});
    ExpectClean({.policy = policy, .workers = 2, .shards = 1, .clocks = 4, .parking = true});
    ExpectClean({.policy = policy, .workers = 3, .shards = 1, .clocks = 3, .parking = true});
  }
}

// Every example spec of the catalogue has its row, and no row is of none.
TEST(PolicySpaceTest, EverySpecHasARowOfMutants) {
  std::vector<std::string> specs = consistency::ExamplePolicies();
  for (std::string& spec : consistency::ExamplePeerPolicies()) specs.push_back(std::move(spec));
  for (const std::string& spec : specs) {
    const MutantRow* row = FindRow(spec);
    ASSERT_NE(row, nullptr) << spec << " has no mutants";
    EXPECT_FALSE(row->mutants.empty()) << spec;
    const auto& lag = consistency::ParsePolicy(spec)->guarantee.read_lag_max;
    EXPECT_GE(row->bound, lag.value_or(0)) << spec;
  }
  EXPECT_EQ(MutantTable().size(), specs.size());
  EXPECT_EQ(SpecsOf(Space::kPeer), consistency::ExamplePeerPolicies());
}

Mutant MutantOf(GuaranteeMutant mutant) {
  switch (mutant) {
    case GuaranteeMutant::kBoundPlusOne:
      return Mutant::kBoundPlusOne;
    case GuaranteeMutant::kOneShardGate:
      return Mutant::kOneShardGate;
    case GuaranteeMutant::kCreditUnbounded:
      return Mutant::kCreditUnbounded;
    case GuaranteeMutant::kMassIgnored:
      return Mutant::kMassIgnored;
    case GuaranteeMutant::kGatherTwice:
      return Mutant::kGatherTwice;
    case GuaranteeMutant::kUpdateLost:
      return Mutant::kUpdateLost;
    case GuaranteeMutant::kUpdateTwice:
      return Mutant::kUpdateTwice;
  }
  return Mutant::kNone;
}

// Whether the space can tell the mutant from the policy at all: one shard cannot ask another, and a
// barrier that asks one of two others promises no bound.
bool Applies(GuaranteeMutant mutant, const SpaceOptions& space) {
  const consistency::PolicyTraits traits = *consistency::ParsePolicy(space.policy);
  const auto* sampled = std::get_if<consistency::SampledTraits>(&traits.gate);
  const bool asks_some =
      sampled != nullptr && sampled->sample > 0 && sampled->sample + 1 < space.workers;
  if (mutant == GuaranteeMutant::kBoundPlusOne) return !asks_some;
  return mutant != GuaranteeMutant::kOneShardGate || space.shards > 1;
}

// The mutants of the policy's row, each in this very space.
void ExpectMutantsDie(const char* name, const SpaceOptions& space) {
  const MutantRow& row = *FindRow(space.policy);
  ASSERT_GE(space.clocks, row.bound + 2) << space.policy << ": the space ends before the bound";
  for (const GuaranteeMutant mutant : row.mutants) {
    if (!Applies(mutant, space)) continue;
    SpaceOptions options = space;
    options.mutant = MutantOf(mutant);
    options.until_violation = true;
    const SpaceReport report = ExploreSpace(options);
    EXPECT_FALSE(report.violations.empty())
        << Name(mutant) << " lives in " << space.policy << ", " << name;
    std::printf("  %-44s %-30s %-18s dead after %llu states: %s\n", space.policy.c_str(), name,
                Name(mutant).c_str(), static_cast<unsigned long long>(report.states),
                absl::StrJoin(report.violations, ", ").c_str());
  }
}

// Clocks up to where a read can be one beyond the bound. The controller of dssp looks at two
// intervals of each first, and where it grants credit the slow one must have lost a third.
Clock ClocksFor(const std::string& policy) {
  const consistency::PolicyTraits traits = *consistency::ParsePolicy(policy);
  const auto* dynamic = std::get_if<consistency::DynamicTraits>(&traits.gate);
  const Clock credit = dynamic != nullptr && dynamic->lower < dynamic->upper ? 1 : 0;
  const Clock intervals = dynamic != nullptr ? 2 + credit : 0;
  return FindRow(policy)->bound + 2 + intervals;
}

bool BoundsMass(const consistency::PolicyTraits& traits) {
  return std::holds_alternative<consistency::ValueTraits>(traits.gate);
}

class FaultSpaceTest : public testing::TestWithParam<std::string> {};

TEST_P(FaultSpaceTest, KeepsTheGuaranteeAndKillsItsMutants) {
  const std::string policy = GetParam();
  SpaceOptions space = {.policy = policy, .parking = true, .symmetric = true};
  space.clocks = ClocksFor(policy);
  const consistency::PolicyTraits traits = *consistency::ParsePolicy(policy);
  // Of deep bounds the space of two shards with all three faults is too large: each has its own.
  // A controller that must grant credit on both shards takes 7 clocks: 1,605,929 states without a
  // fault, and too many with one.
  const bool deep = space.clocks > 3 || (BoundsMass(traits) && space.clocks > 2);
  const auto* dynamic = std::get_if<consistency::DynamicTraits>(&traits.gate);
  const bool both = !deep || dynamic == nullptr || dynamic->lower == dynamic->upper;
  std::vector<std::pair<const char*, SpaceOptions>> spaces;
  SpaceOptions two = space;
  two.workers = two.shards = 2;
  two.crashes = two.joins = 1;
  if (!deep) two.restores = 1;
  if (!both) {
    SpaceOptions quiet = two;
    quiet.crashes = quiet.joins = 0;
    spaces.emplace_back("P=2 K=2", quiet);
  } else {
    spaces.emplace_back(deep ? "P=2 K=2 crash join" : "P=2 K=2 crash join restore", two);
  }
  if (deep) {
    two.crashes = two.joins = 0;
    two.restores = 1;
    if (both) spaces.emplace_back("P=2 K=2 restore", two);
    two.shards = 1;
    two.crashes = two.joins = 1;
    spaces.emplace_back("P=2 K=1 crash join restore", two);
  }
  SpaceOptions three = space;
  three.workers = deep ? 2 : 3;
  three.crashes = deep ? 0 : 1;
  three.leaves = 1;
  three.duplicates = 1;
  spaces.emplace_back(deep ? "P=2 K=1 leave duplicate" : "P=3 K=1 crash leave duplicate", three);
  for (const auto& [name, options] : spaces) {
    ExpectClean(options);
    ExpectMutantsDie(name, options);
  }
}

// A connection breaks and is made again; another time it is lost for good. Whoever forgets what was
// under way, or that it is lost, hangs.
TEST_P(FaultSpaceTest, HoldsThroughBrokenAndLostConnections) {
  const std::string policy = GetParam();
  const Clock clocks = ClocksFor(policy);
  // A controller's intervals take more clocks than the larger spaces can have: there its mutants of
  // the bound are not looked for.
  const consistency::PolicyTraits traits = *consistency::ParsePolicy(policy);
  const bool dynamic = std::holds_alternative<consistency::DynamicTraits>(traits.gate);
  const Clock clocks_max = dynamic ? 3 : clocks;
  const bool held = BoundsMass(traits);
  const SpaceOptions sizes[] = {
      {.workers = 2, .shards = 1, .clocks = clocks},
      {.workers = 2, .shards = 2, .clocks = clocks_max},
      {.workers = 3, .shards = 1, .clocks = held ? std::min<Clock>(clocks, 2) : clocks_max}};
  for (SpaceOptions space : sizes) {
    space.policy = policy;
    space.parking = space.symmetric = true;
    const std::string size = absl::StrCat("P=", space.workers, " K=", space.shards);
    for (const LinkMutant mutant : kLinkMutants) {
      const bool resume = mutant == LinkMutant::kNoResume;
      space.breaks = resume ? 1 : 0;
      space.losses = resume ? 0 : 1;
      ExpectClean(space);
      const std::string name = absl::StrCat(size, resume ? " break" : " lost link");
      if (space.clocks == clocks) ExpectMutantsDie(name.c_str(), space);
      SpaceOptions broken = space;
      broken.mutant = resume ? Mutant::kNoResume : Mutant::kNoLinkLost;
      broken.until_deadlock = true;
      const SpaceReport report = ExploreSpace(broken);
      EXPECT_GT(report.deadlocks, 0u) << Name(mutant) << " lives in " << policy << ", " << size;
      EXPECT_LE(report.states, kStatesToHang) << Name(mutant) << " in " << policy << ", " << size;
      PrintHang("policy", policy, size, mutant, report.states,
                absl::StrJoin(report.violations, ", "));
    }
  }
}

// "ssp_s_1"
std::string NameOfSpace(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Policies, FaultSpaceTest, testing::ValuesIn(Policies()), NameOfSpace);

// What a shard has in hand when it restarts meets its own duplicates, clocks that came by
// themselves, and updates of its sender's former life.
TEST(PolicySpaceTest, RestoredShardsTakeWhatIsSentAgain) {
  for (const std::string& policy : Policies()) {
    const SpaceOptions space = {
        .policy = policy, .clocks = 3, .parking = true, .restores = 1, .symmetric = true};
    SpaceOptions duplicates = space;
    duplicates.duplicates = 1;
    ExpectClean(duplicates);
    SpaceOptions apart = space;
    apart.one_message = false;
    ExpectClean(apart);
  }
  ExpectClean(
      {.policy = "bsp", .clocks = 3, .parking = true, .crashes = 2, .joins = 2, .restores = 1});
}

// States that are taken for one have one future; a print that forgets a field is found out.
TEST(PolicySpaceTest, EqualPrintsHaveEqualFutures) {
  uint64_t pairs = 0;
  for (const std::string& policy : Policies()) {
    const SpaceOptions options = {.policy = policy,
                                  .shards = 2,
                                  .clocks = ClocksFor(policy),
                                  .parking = true,
                                  .crashes = 1,
                                  .joins = 1,
                                  .restores = 1,
                                  .duplicates = 1,
                                  .breaks = 1,
                                  .losses = 1};
    const FuturesReport report = CompareFutures(PolicyWorld(options), {});
    EXPECT_FALSE(report.difference.has_value()) << policy << ": " << *report.difference;
    EXPECT_GT(report.pairs, 100u) << policy;
    pairs += report.pairs;
  }
  std::printf("%llu pairs of states\n", static_cast<unsigned long long>(pairs));
  for (const char* policy : {"bsp", "ssp:s=1", "async"}) {
    const SpaceOptions options = {.policy = policy,
                                  .clocks = 3,
                                  .parking = true,
                                  .restores = 1,
                                  .mutant = Mutant::kForgetfulPrint};
    EXPECT_TRUE(CompareFutures(PolicyWorld(options), {}).difference.has_value()) << policy;
  }
}

TEST(PolicySpaceTest, UpdateAndClockAsTwoMessagesInOrderIsSafe) {
  ExpectClean({.policy = "ssp:s=1", .one_message = false, .parking = true});
  ExpectClean({.policy = "bsp", .shards = 2, .clocks = 3, .one_message = false, .parking = true});
}

TEST(PolicySpaceTest, SspKeepsItsBoundThroughCrashLeaveJoinAndRestore) {
  const SpaceOptions faults = {.policy = "ssp:s=1",
                               .workers = 2,
                               .shards = 2,
                               .clocks = 3,
                               .parking = true,
                               .crashes = 1,
                               .leaves = 1,
                               .joins = 1,
                               .restores = 1};
  ExpectClean(faults);
  SpaceOptions three = faults;
  three.workers = 3;
  three.shards = 1;
  ExpectClean(three);
  SpaceOptions strict = faults;
  strict.policy = "ssp:s=0";
  ExpectClean(strict);
}

struct MutantCase {
  Mutant mutant;
  SpaceOptions space;
};

SpaceOptions SpaceOf(const char* policy, uint32_t workers = 2) {
  SpaceOptions space = {.policy = policy, .workers = workers};
  space.parking = true;
  space.leaves = 1;
  return space;
}

SpaceOptions Restored(const char* policy) {
  SpaceOptions space = SpaceOf(policy);
  space.leaves = 0;
  space.restores = 1;
  return space;
}

// Of ssp, which most are about.
std::vector<MutantCase> BoundedMutantCases() {
  const SpaceOptions plain = {.policy = "ssp:s=1"};
  const SpaceOptions members = SpaceOf("ssp:s=1");
  SpaceOptions joins = members;
  joins.joins = 1;
  SpaceOptions restores = members;
  restores.restores = 1;
  SpaceOptions two_shards = plain;
  two_shards.shards = 2;
  SpaceOptions two_messages = plain;
  two_messages.one_message = false;
  SpaceOptions bsp = plain;
  bsp.policy = "bsp";
  SpaceOptions duplicates = plain;
  duplicates.duplicates = 1;
  return {{Mutant::kIssuedClockGate, plain},
          {Mutant::kBoundPlusOne, plain},
          {Mutant::kBoundMinusOne, plain},
          {Mutant::kOneShardGate, two_shards},
          {Mutant::kNoSnapshot, bsp},
          {Mutant::kClockOvertakes, two_messages},
          {Mutant::kLeaveWakesNobody, members},
          {Mutant::kLeaveKeepsMember, members},
          {Mutant::kRestoreLosesClocks, restores},
          {Mutant::kRestoreAheadOfClocks, restores},
          {Mutant::kJoinAtZero, joins},
          {Mutant::kJoinAhead, joins},
          {Mutant::kReleaseOnAnyClock, members},
          {Mutant::kDuplicateApplied, duplicates}};
}

std::vector<MutantCase> MutantCases() {
  SpaceOptions paces = SpaceOf("dssp:lower=0,upper=1");  // the controller needs two intervals first
  paces.clocks = 6;
  paces.leaves = 0;
  SpaceOptions crash = SpaceOf("bsp");
  crash.crashes = 1;
  SpaceOptions duplicate_rounds = SpaceOf("localsgd:h=1");
  duplicate_rounds.duplicates = 1;
  std::vector<MutantCase> cases = BoundedMutantCases();
  const MutantCase others[] = {{Mutant::kDuplicateApplied, duplicate_rounds},
                               {Mutant::kBoundPlusOne, SpaceOf("essp:s=1")},
                               {Mutant::kSendsLost, SpaceOf("essp:s=1")},
                               {Mutant::kSendWithoutGate, SpaceOf("essp:s=1")},
                               {Mutant::kCreditUnbounded, paces},
                               {Mutant::kBoundPlusOne, SpaceOf("pssp:s=1,p=1")},
                               {Mutant::kLeaveKeepsMember, SpaceOf("psp:sample=1,s=0", 3)},
                               {Mutant::kGatherTwice, SpaceOf("softsync:n=1")},
                               {Mutant::kGatherLosesFirst, SpaceOf("softsync:n=1")},
                               {Mutant::kNoDrain, SpaceOf("softsync:n=1", 3)},
                               {Mutant::kMassIgnored, SpaceOf("value:v0=1")},
                               {Mutant::kHeldSkipsQueue, SpaceOf("value:v0=1")},
                               {Mutant::kLeaveKeepsMember, SpaceOf("localsgd:h=1")},
                               {Mutant::kGatherLosesFirst, SpaceOf("bmuf:h=1")},
                               {Mutant::kNoTakeover, crash},
                               {Mutant::kRestoreLosesHeld, Restored("bsp")},
                               {Mutant::kRestoreLosesHeld, Restored("softsync:n=1")},
                               {Mutant::kRestoreLosesClocks, Restored("essp:s=1")},
                               {Mutant::kRestoreAheadOfClocks, Restored("pssp:s=1,p=1")}};
  cases.insert(cases.end(), std::begin(others), std::end(others));
  return cases;
}

TEST(PolicySpaceTest, EveryMutantIsKilled) {
  std::printf("%-36s %-22s %8s %9s %4s %4s  %s\n", "mutant", "policy", "states", "bad reads", "lag",
              "gap", "killed by");
  for (MutantCase c : MutantCases()) {
    const SpaceReport original = ExploreSpace(c.space);
    EXPECT_TRUE(original.violations.empty()) << "the original of " << Name(c.mutant);
    c.space.mutant = c.mutant;
    SpaceReport report = ExploreSpace(c.space);
    // A gate that is too strict breaks no bound: it is seen by never reaching it.
    if (report.lag_max < original.lag_max) report.violations.insert("bound never reached");
    EXPECT_FALSE(report.violations.empty()) << Name(c.mutant) << " survived in " << c.space.policy;
    std::printf("%-36s %-22s %8llu %9llu %4d %4d  %s\n", Name(c.mutant).c_str(),
                c.space.policy.c_str(), static_cast<unsigned long long>(report.states),
                static_cast<unsigned long long>(report.bad_reads), static_cast<int>(report.lag_max),
                static_cast<int>(report.gap_max), absl::StrJoin(report.violations, ", ").c_str());
  }
}

// The survey's counts of bad reads, from its own model.
TEST(PolicySpaceTest, MutantsHaveTheBadReadsOfTheSpecification) {
  const auto bad_reads = [](Mutant mutant, std::string policy) {
    return ExploreSpace({.policy = std::move(policy), .mutant = mutant}).bad_reads;
  };
  EXPECT_EQ(bad_reads(Mutant::kIssuedClockGate, "ssp:s=1"), 122u);
  EXPECT_EQ(bad_reads(Mutant::kBoundPlusOne, "ssp:s=1"), 84u);
  EXPECT_EQ(bad_reads(Mutant::kNoSnapshot, "bsp"), 8u);
  EXPECT_EQ(ExploreSpace({.one_message = false, .mutant = Mutant::kClockOvertakes}).bad_reads,
            426u);
}

// ---- Walks: spaces too large to explore. The long mode is SOAPSTONE_READS=1000000000.

// Reads to check for each policy.
uint64_t ReadsEach() {
  const char* wanted = std::getenv("SOAPSTONE_READS");
  const uint64_t all = wanted == nullptr ? 4'000'000 : std::strtoull(wanted, nullptr, 10);
  return all / Policies().size() + 1;
}

SpaceOptions Large(const std::string& policy) {
  return {.policy = policy, .workers = 6, .shards = 3, .clocks = 90, .parking = true};
}

class PolicyWalkTest : public testing::TestWithParam<std::string> {};

TEST_P(PolicyWalkTest, EveryReadKeepsTheGuarantee) {
  SpaceOptions options = Large(GetParam());
  options.duplicates = options.breaks = 20;
  options.crashes = options.joins = 4;
  options.leaves = options.losses = 2;
  options.restores = 8;
  const uint64_t reads = ReadsEach();
  const SteadyTime began = SteadyNow();
  const SpaceReport report = WalkSpace(options, reads, /*seed=*/reads);
  EXPECT_TRUE(report.violations.empty()) << absl::StrJoin(report.violations, ", ");
  EXPECT_GE(report.reads, reads);
  std::printf(
      "%-36s %llu reads on %llu paths, lag up to %d, none bad; %.2f million a second\n",
      GetParam().c_str(), static_cast<unsigned long long>(report.reads),
      static_cast<unsigned long long>(report.states), static_cast<int>(report.lag_max),
      1e-6 * static_cast<double>(report.reads) / absl::ToDoubleSeconds(SteadyNow() - began));
}

INSTANTIATE_TEST_SUITE_P(Policies, PolicyWalkTest, testing::ValuesIn(Policies()));

TEST(PolicyWalkTest, WalksKillMutantsToo) {
  const auto walk = [](const std::string& policy, Mutant mutant, int leaves) {
    SpaceOptions options = Large(policy);
    options.mutant = mutant;
    options.leaves = leaves;
    return !WalkSpace(options, 1'000'000, 1).violations.empty();
  };
  EXPECT_TRUE(walk("ssp:s=2", Mutant::kBoundPlusOne, 0));
  EXPECT_TRUE(walk("ssp:s=2", Mutant::kIssuedClockGate, 0));
  EXPECT_TRUE(walk("ssp:s=2", Mutant::kLeaveKeepsMember, 1));
  EXPECT_TRUE(walk("bsp", Mutant::kNoSnapshot, 0));
  EXPECT_TRUE(walk("bsp", Mutant::kUpdateLost, 0));
  EXPECT_TRUE(walk("softsync:n=1", Mutant::kNoDrain, 1));
  EXPECT_TRUE(walk("value:v0=1", Mutant::kMassIgnored, 0));
}

}  // namespace
}  // namespace soapstone::check
