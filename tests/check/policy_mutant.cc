// Names of the policy space's mutants.
#include <utility>

#include "tests/check/policy_space.h"

namespace soapstone::check {

namespace {

constexpr std::pair<Mutant, const char*> kNames[] = {
    {Mutant::kNone, "none"},
    {Mutant::kIssuedClockGate, "gate on issued clocks"},
    {Mutant::kBoundPlusOne, "bound off by one, loose"},
    {Mutant::kBoundMinusOne, "bound off by one, strict"},
    {Mutant::kOneShardGate, "gate on one shard, read all"},
    {Mutant::kNoSnapshot, "bsp without snapshots"},
    {Mutant::kClockOvertakes, "clocks on a channel of their own"},
    {Mutant::kLeaveWakesNobody, "leave does not wake the parked"},
    {Mutant::kLeaveKeepsMember, "leave keeps the member's clock"},
    {Mutant::kRestoreLosesClocks, "restore loses the vector clock"},
    {Mutant::kRestoreAheadOfClocks, "restore rounds clocks up"},
    {Mutant::kJoinAtZero, "newcomer starts at clock 0"},
    {Mutant::kJoinAhead, "newcomer starts ahead"},
    {Mutant::kReleaseOnAnyClock, "any clock releases the parked"},
    {Mutant::kDuplicateApplied, "a duplicate is applied again"},
    {Mutant::kSendsLost, "values sent unasked are lost"},
    {Mutant::kSendWithoutGate, "values sent whatever the bound"},
    {Mutant::kCreditUnbounded, "credit beyond the upper bound"},
    {Mutant::kGatherTwice, "gathered twice"},
    {Mutant::kGatherLosesFirst, "the first gathered is forgotten"},
    {Mutant::kNoDrain, "the end is not told"},
    {Mutant::kMassIgnored, "updates count as weightless"},
    {Mutant::kHeldSkipsQueue, "a kept update lets a read pass"},
    {Mutant::kUpdateLost, "an update is lost"},
    {Mutant::kUpdateTwice, "an update is applied twice"},
    {Mutant::kNoTakeover, "micro-batches of the lost are not taken over"},
    {Mutant::kRestoreLosesHeld, "restore loses what was taken"},
    {Mutant::kNoResume, "no resume"},
    {Mutant::kNoLinkLost, "no word of the loss"},
    {Mutant::kForgetfulPrint, "prints without what has been read"},
};

}  // namespace

std::string Name(Mutant mutant) {
  for (const auto& [known, name] : kNames) {
    if (known == mutant) return name;
  }
  return "?";
}

}  // namespace soapstone::check
