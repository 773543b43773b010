// Names of the policy space's mutants.
#include "tests/check/policy_space.h"

namespace soapstone::check {

std::string Name(Mutant mutant) {
  switch (mutant) {
    case Mutant::kNone:
      return "none";
    case Mutant::kIssuedClockGate:
      return "gate on issued clocks";
    case Mutant::kBoundPlusOne:
      return "bound off by one, loose";
    case Mutant::kBoundMinusOne:
      return "bound off by one, strict";
    case Mutant::kOneShardGate:
      return "gate on one shard, read all";
    case Mutant::kNoSnapshot:
      return "bsp without snapshots";
    case Mutant::kClockOvertakes:
      return "clocks on a channel of their own";
    case Mutant::kLeaveWakesNobody:
      return "leave does not wake the parked";
    case Mutant::kLeaveKeepsMember:
      return "leave keeps the member's clock";
    case Mutant::kRestoreLosesClocks:
      return "restore loses the vector clock";
    case Mutant::kRestoreAheadOfClocks:
      return "restore rounds clocks up";
    case Mutant::kJoinAtZero:
      return "newcomer starts at clock 0";
    case Mutant::kJoinAhead:
      return "newcomer starts ahead";
    case Mutant::kReleaseOnAnyClock:
      return "any clock releases the parked";
    case Mutant::kDuplicateApplied:
      return "a duplicate is applied again";
    case Mutant::kSendsLost:
      return "values sent unasked are lost";
    case Mutant::kSendWithoutGate:
      return "values sent whatever the bound";
    case Mutant::kCreditUnbounded:
      return "credit beyond the upper bound";
    case Mutant::kGatherTwice:
      return "gathered twice";
    case Mutant::kGatherLosesFirst:
      return "the first gathered is forgotten";
    case Mutant::kNoDrain:
      return "the end is not told";
    case Mutant::kMassIgnored:
      return "updates count as weightless";
    case Mutant::kHeldSkipsQueue:
      return "a kept update lets a read pass";
    case Mutant::kUpdateLost:
      return "an update is lost";
    case Mutant::kUpdateTwice:
      return "an update is applied twice";
    case Mutant::kNoAdoption:
      return "leaves of the lost are not adopted";
    case Mutant::kRestoreLosesHeld:
      return "restore loses what was taken";
    case Mutant::kNoResume:
      return "no resume";
    case Mutant::kNoLinkLost:
      return "no word of the loss";
    case Mutant::kForgetfulPrint:
      return "prints without what has been read";
  }
  return "?";
}

}  // namespace soapstone::check
