// Every reachable state of the shipped peers of every decentralised policy, and mutants that must
// not survive.
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "consistency/catalogue.h"
#include "gtest/gtest.h"
#include "sim/explore.h"
#include "sim/peer_world.h"
#include "tests/check/equal_futures.h"
#include "tests/check/mutant_table.h"

namespace soapstone::sim {
namespace {

ExploreReport Exhaust(const PeerWorldOptions& options, uint64_t states_max = 3'000'000) {
  const absl::StatusOr<PeerWorld> world = PeerWorld::Make(options);
  EXPECT_TRUE(world.ok()) << world.status();
  return Explore(*world, {.states_max = states_max});
}

void ExpectClean(const char* what, const PeerWorldOptions& options) {
  const ExploreReport report = Exhaust(options);
  EXPECT_FALSE(report.violation.has_value()) << options.policy << ": " << report.ToString();
  EXPECT_TRUE(report.complete) << options.policy;
  EXPECT_GT(report.ends, 0u) << options.policy;
  std::printf("%-45s P=%u clocks=%d %-22s %llu states, %llu ends\n", options.policy.c_str(),
              options.workers, static_cast<int>(options.clocks), what,
              static_cast<unsigned long long>(report.states),
              static_cast<unsigned long long>(report.ends));
}

// The mutants of the policy's row (mutant_table.h), each in this very space.
void ExpectMutantsDie(const char* what, PeerWorldOptions options) {
  const check::MutantRow* row = check::FindRow(options.policy);
  ASSERT_NE(row, nullptr) << options.policy << " has no mutants";
  for (const check::GuaranteeMutant mutant : row->mutants) {
    const bool lost = mutant == check::GuaranteeMutant::kUpdateLost;
    ASSERT_TRUE(lost || mutant == check::GuaranteeMutant::kUpdateTwice);
    options.mutant = lost ? PeerMutant::kGradientLost : PeerMutant::kGradientTwice;
    const ExploreReport report = Exhaust(options);
    EXPECT_TRUE(report.violation.has_value())
        << check::Name(mutant) << " lives in " << options.policy << ", " << what;
    std::printf("  %-44s %-22s %-18s dead after %llu states: %s\n", options.policy.c_str(), what,
                check::Name(mutant).c_str(), static_cast<unsigned long long>(report.states),
                report.violation.value_or("").c_str());
  }
}

void ExpectSpace(const char* what, const PeerWorldOptions& options) {
  ExpectClean(what, options);
  ExpectMutantsDie(what, options);
}

// Worlds that are taken for one have one future; a print that forgets a field is found out.
TEST(PeerSpaceTest, EqualPrintsHaveEqualFutures) {
  for (const std::string& policy : consistency::ExamplePeerPolicies()) {
    PeerWorldOptions options = {.policy = policy,
                                .workers = 2,
                                .clocks = 2,
                                .crashes = 1,
                                .joins = 1,
                                .duplicates = 1,
                                .breaks = 1,
                                .losses = 1};
    const auto report = check::CompareFutures(*PeerWorld::Make(options), {.pairs_max = 300});
    EXPECT_FALSE(report.difference.has_value()) << policy << ": " << *report.difference;
    EXPECT_GT(report.pairs, 50u) << policy;
    if (policy.starts_with("allreduce")) {
      PeerWorldOptions stretches = options;
      stretches.two_stretches = true;
      const auto by_stretch =
          check::CompareFutures(*PeerWorld::Make(stretches), {.pairs_max = 300});
      EXPECT_FALSE(by_stretch.difference.has_value()) << policy << ": " << *by_stretch.difference;
      EXPECT_GT(by_stretch.pairs, 50u) << policy;
    }
    options.mutant = PeerMutant::kForgetfulPrint;
    const auto forgetful = check::CompareFutures(*PeerWorld::Make(options), {.pairs_max = 300});
    EXPECT_TRUE(forgetful.difference.has_value()) << policy;
  }
}

TEST(PeerSpaceTest, WithoutFaults) {
  for (const std::string& policy : consistency::ExamplePeerPolicies()) {
    ExpectClean("no fault", {.policy = policy, .workers = 2, .clocks = 4});
    ExpectClean("no fault", {.policy = policy, .workers = 3, .clocks = 2});
    ExpectClean("fewer elements", {.policy = policy, .workers = 3, .clocks = 1, .elements = 2});
  }
}

TEST(PeerSpaceTest, WithCrashAndJoin) {
  for (const std::string& policy : consistency::ExamplePeerPolicies()) {
    ExpectSpace("crash, join",
                {.policy = policy, .workers = 2, .clocks = 2, .crashes = 1, .joins = 1});
    ExpectSpace("crash", {.policy = policy, .workers = 3, .clocks = 1, .crashes = 1});
  }
}

TEST(PeerSpaceTest, WithLateBirths) {
  for (const std::string& policy : consistency::ExamplePeerPolicies()) {
    ExpectSpace("births", {.policy = policy, .workers = 2, .clocks = 2, .births = true});
    ExpectSpace(
        "births, crash, join",
        {.policy = policy, .workers = 2, .clocks = 1, .crashes = 1, .joins = 1, .births = true});
  }
}

TEST(PeerSpaceTest, WithLeaveAndDuplicate) {
  for (const std::string& policy : consistency::ExamplePeerPolicies()) {
    ExpectSpace("leave, duplicate",
                {.policy = policy, .workers = 2, .clocks = 3, .leaves = 1, .duplicates = 1});
  }
}

// 20,000, or as many as SOAPSTONE_STATES says: the long campaign.
uint64_t StatesMax() {
  const char* wanted = std::getenv("SOAPSTONE_STATES");
  return wanted == nullptr ? 20'000 : std::strtoull(wanted, nullptr, 10);
}

void ExpectHang(const PeerWorldOptions& space, check::LinkMutant mutant) {
  PeerWorldOptions options = space;
  options.mutant =
      mutant == check::LinkMutant::kNoResume ? PeerMutant::kNoResume : PeerMutant::kNoLinkLost;
  options.hangs_only = true;
  const ExploreReport report = Exhaust(options, check::kStatesToHang);
  EXPECT_TRUE(report.violation.has_value()) << Name(mutant) << " lives in " << options.policy;
  check::PrintHang("peer", options.policy, absl::StrCat("P=", options.workers), mutant,
                   report.states, report.violation.value_or("LIVES"));
}

// A connection breaks, of two workers or of one and the scheduler, and goes on where it was.
TEST(PeerSpaceTest, WithABrokenConnection) {
  for (const std::string& policy : check::SpecsOf(check::Space::kPeer)) {
    PeerWorldOptions two = {.policy = policy, .workers = 2, .clocks = 4, .breaks = 1};
    PeerWorldOptions three = {.policy = policy, .workers = 3, .clocks = 1, .breaks = 1};
    for (const PeerWorldOptions& space : {two, three}) {
      ExpectSpace("break", space);
      ExpectHang(space, check::LinkMutant::kNoResume);
    }
  }
}

// Two workers cannot reach one another any more: one of them is counted out.
TEST(PeerSpaceTest, WithALostConnection) {
  for (const std::string& policy : check::SpecsOf(check::Space::kPeer)) {
    PeerWorldOptions two = {.policy = policy, .workers = 2, .clocks = 4, .losses = 1};
    ExpectSpace("lost link", two);
    ExpectHang(two, check::LinkMutant::kNoLinkLost);
    // Of three, who is counted out goes on beside the other two: 337,072 states of allreduce, and
    // more than 400,000 of the others. Up to the budget.
    PeerWorldOptions three = {.policy = policy, .workers = 3, .clocks = 1, .losses = 1};
    const ExploreReport report = Exhaust(three, StatesMax());
    EXPECT_FALSE(report.violation.has_value()) << policy << ": " << report.ToString();
    EXPECT_GT(report.ends, 0u) << policy;
    std::printf("%-45s P=3 clocks=1 lost link %llu states%s\n", policy.c_str(),
                static_cast<unsigned long long>(report.states),
                report.complete ? "" : " (up to the budget)");
    ExpectHang(three, check::LinkMutant::kNoLinkLost);
  }
}

// All-reduce by stretches: one may be under way, or done, while another's gradient is computed.
TEST(PeerSpaceTest, ByStretches) {
  for (const std::string& policy : check::SpecsOf(check::Space::kPeer)) {
    const bool ring = policy.starts_with("allreduce");
    if (!ring && !policy.starts_with("eager")) continue;
    const PeerWorldOptions two = {
        .policy = policy, .workers = 2, .clocks = 2, .elements = 2, .two_stretches = true};
    PeerWorldOptions rejoin = two, leave = two, broken = two, three = two;
    rejoin.crashes = rejoin.joins = 1;
    leave.leaves = leave.duplicates = 1;
    broken.breaks = 1;
    ExpectSpace("two stretches", two);
    ExpectSpace("two stretches, break", broken);
    ExpectHang(broken, check::LinkMutant::kNoResume);
    if (ring) ExpectSpace("two stretches, crash, join", rejoin);
    if (ring) ExpectSpace("two stretches, leave, duplicate", leave);
    three.workers = 3;
    three.clocks = 1;
    three.elements = 3;
    three.crashes = 1;
    const ExploreReport report = Exhaust(three, StatesMax());
    EXPECT_FALSE(report.violation.has_value()) << policy << ": " << report.ToString();
    std::printf("%-45s P=3 clocks=1 two stretches, crash %llu states%s\n", policy.c_str(),
                static_cast<unsigned long long>(report.states),
                report.complete ? "" : " (up to the budget)");
  }
}

struct MutantCase {
  const char* what;
  PeerMutant mutant;
  PeerWorldOptions options;
};

// Each must be found, with the property that it breaks.
TEST(PeerSpaceTest, MutantsAreKilled) {
  const std::string ring = "allreduce", solo = "eager:mode=solo", sum = "gossip:mode=pushsum";
  const std::string pairs = "gossip:mode=adpsgd", mixing = "gossip:mode=dpsgd";
  const PeerWorldOptions two = {.workers = 2, .clocks = 2};
  const auto with = [&](const std::string& policy, PeerWorldOptions options) {
    options.policy = policy;
    return options;
  };
  PeerWorldOptions rejoin = two, twice = two, three = two;
  rejoin.crashes = rejoin.joins = 1;
  twice.duplicates = 1;
  three.workers = 3;
  three.crashes = 1;
  PeerWorldOptions stretches = two;
  stretches.two_stretches = true;
  const MutantCase cases[] = {
      {"a duplicate passes for a message", PeerMutant::kDuplicateUnseen, with(sum, twice)},
      {"a duplicate passes for a message", PeerMutant::kDuplicateUnseen, with(pairs, twice)},
      {"numbers restart with a process", PeerMutant::kSequencesRestart, with(ring, rejoin)},
      {"parcels outlive their group", PeerMutant::kStaleRounds, with(ring, three)},
      {"one side of a meeting", PeerMutant::kHalfMeeting, with(pairs, two)},
      {"values without their weight", PeerMutant::kWeightStays, with(sum, two)},
      {"newcomers get no values", PeerMutant::kNoState, with(ring, rejoin)},
      {"newcomers get no values", PeerMutant::kNoState, with(mixing, rejoin)},
      {"a parcel is lost", PeerMutant::kLostParcel, with(solo, two)},
      {"a parcel is lost", PeerMutant::kLostParcel, with(mixing, two)},
      {"stretches are not told apart", PeerMutant::kStretchesMixed, with(ring, stretches)},
      {"a part of a gradient is lost", PeerMutant::kPartLost, with(ring, stretches)},
      {"hands in before all have sent", PeerMutant::kEarlyHandIn, with(sum, two)},
  };
  for (const MutantCase& mutant : cases) {
    PeerWorldOptions options = mutant.options;
    options.mutant = mutant.mutant;
    const ExploreReport report = Exhaust(options);
    EXPECT_TRUE(report.violation.has_value()) << mutant.what << ", " << options.policy;
    std::printf("%-34s %-20s %s\n", mutant.what, options.policy.c_str(),
                report.violation.value_or("SURVIVES").c_str());
  }
}

}  // namespace
}  // namespace soapstone::sim
