// Every reachable state of the shipped policy objects, and mutants that must not survive.
#include "tests/check/policy_space.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace soapstone::check {
namespace {

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

TEST(PolicySpaceTest, EveryPolicyKeepsItsGuarantee) {
  for (const char* policy : {"bsp", "ssp:s=0", "ssp:s=1", "ssp:s=2", "async",
                             "easgd:tau=1,mode=sync", "easgd:tau=1,mode=async"}) {
    ExpectClean({.policy = policy, .workers = 2, .shards = 2, .clocks = 4, .parking = true});
    ExpectClean({.policy = policy, .workers = 3, .shards = 1, .clocks = 3, .parking = true});
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

std::vector<MutantCase> MutantCases() {
  const SpaceOptions plain = {.policy = "ssp:s=1"};
  SpaceOptions members = plain;
  members.parking = true;
  members.leaves = 1;
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
          {Mutant::kReleaseOnAnyClock, members}};
}

TEST(PolicySpaceTest, EveryMutantIsKilled) {
  std::printf("%-36s %8s %9s %4s %4s  %s\n", "mutant", "states", "bad reads", "lag", "gap",
              "killed by");
  for (MutantCase c : MutantCases()) {
    const SpaceReport original = ExploreSpace(c.space);
    EXPECT_TRUE(original.violations.empty()) << "the original of " << Name(c.mutant);
    c.space.mutant = c.mutant;
    SpaceReport report = ExploreSpace(c.space);
    // A gate that is too strict breaks no bound: it is seen by never reaching it.
    if (report.lag_max < original.lag_max) report.violations.insert("bound never reached");
    EXPECT_FALSE(report.violations.empty()) << Name(c.mutant) << " survived";
    std::printf("%-36s %8llu %9llu %4d %4d  %s\n", Name(c.mutant).c_str(),
                static_cast<unsigned long long>(report.states),
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

}  // namespace
}  // namespace soapstone::check
