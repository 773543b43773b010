// The state space of a policy: P workers, K shards, clocks up to C, and the shipped
// consistency::Policy object of each shard, with the atomic steps of the specification
//   Read(w, k)      the shard's policy would answer a pull of w now
//   Tick(w)         w has read all shards: it issues its update and its clock on every channel
//   Deliver(w, k)   the head of channel (w, k) arrives: an update, or a clock
// plus, in the fault menu: pulls that are parked and must be released, crash (what is in flight is
// lost; each shard hears of it in its own time), clean leave, two-step join, duplicates, and
// restore of a shard, from the clocks whose updates are in its values (parked pulls are lost and
// asked again, updates that it had taken and not applied are sent again; a value policy keeps its
// books). Over a connection that breaks nothing is lost, repeated or reordered (docs/wire.md,
// Sessions): for a worker's updates and clocks that is a delay, which the space has anyway, but an
// answer that waits for the connection is older when it is read. Of one that is lost for good what
// is under way is gone, the scheduler counts the worker out, each shard hears of it in its own
// time, and so does the worker, which goes on until then. Where a policy looks at intervals, time
// is the number of deliveries at the shard. Where micro-batches of the lost are taken over (bsp),
// each worker hears of a loss in its own time, and makes the micro-batches that are then its own,
// of its step before too. Exhaustive: every reachable state is visited once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/fingerprint.h"
#include "consistency/policy.h"

namespace soapstone::check {

// Deliberate bugs, each around the shipped policy object. kNone is the real thing.
enum class Mutant {
  kNone,
  kIssuedClockGate,       // gates on clocks issued, not applied
  kBoundPlusOne,          // off by one: too loose
  kBoundMinusOne,         // off by one: too strict
  kOneShardGate,          // asks only shard 0 before reading all
  kNoSnapshot,            // bsp by gating reads from below
  kClockOvertakes,        // clocks on a channel of their own, without counts
  kLeaveWakesNobody,      // releases of a leave are lost
  kLeaveKeepsMember,      // a leave is not told to the policy
  kRestoreLosesClocks,    // a restored shard starts with clocks of zero
  kRestoreAheadOfClocks,  // a restored shard believes all have the greatest clock
  kJoinAtZero,            // a newcomer starts at clock 0 on every shard
  kJoinAhead,             // a newcomer starts beyond the fastest
  kReleaseOnAnyClock,     // any clock releases every parked pull
  kDuplicateApplied,      // a duplicate is applied again
  kSendsLost,             // values sent unasked get lost (essp)
  kSendWithoutGate,       // every clock is answered unasked, whatever the bound (essp)
  kCreditUnbounded,       // the controller's credit ignores the upper bound (dssp)
  kGatherTwice,           // what was gathered is gathered again (softsync)
  kGatherLosesFirst,      // the first of the gathered is forgotten (softsync)
  kNoDrain,               // the end of the run is not told to the policy (softsync)
  kMassIgnored,           // updates count as weightless (value)
  kHeldSkipsQueue,        // a kept update lets its worker's next read pass (value)
  kUpdateLost,            // the first update of worker 0 does not go in
  kUpdateTwice,           // and goes in twice
  kNoTakeover,            // nobody makes the lost one's micro-batches of the step before (bsp)
  kRestoreLosesHeld,      // what a restored shard had taken and not applied is not sent again
  kNoResume,              // what a broken connection had under way is not sent again
  kNoLinkLost,            // who cannot reach a shard any more says so to nobody
  kForgetfulPrint,        // states are compared without what has been read
};
std::string Name(Mutant mutant);

struct SpaceOptions {
  std::string policy = "ssp:s=1";
  uint32_t workers = 2;
  uint32_t shards = 1;
  Clock clocks = 4;
  // An update and its clock are one message, as in the survey's counts; else two, in order.
  bool one_message = true;
  bool parking = false;  // pulls may be parked and released, instead of tried again
  int crashes = 0;
  int leaves = 0;
  int joins = 0;  // of a worker that crashed or left
  int restores = 0;
  int duplicates = 0;
  int breaks = 0;  // a connection breaks, and is made again later
  int losses = 0;  // a worker and a shard cannot reach one another any more
  // Of states that differ only by the names of their shards one is visited.
  bool symmetric = false;
  bool until_violation = false;  // the first one ends the exploration
  bool until_deadlock = false;   // the first S5 does
  Mutant mutant = Mutant::kNone;
};

// What can happen. Shard and worker are looked at as far as the kind needs them.
struct SpaceChoice {
  enum class Kind : uint8_t {
    kPull,
    kTick,
    kDeliver,
    kDeliverFirstClock,  // before the updates in front of it (a mutant's)
    kDuplicate,
    kEvict,
    kPrepare,
    kCommit,
    kJoin,
    kStart,
    kHear,  // a worker learns who takes part, where micro-batches of the lost are taken over
    kCrash,
    kLeave,
    kRestore,
    kBreak,            // the connection of w and k: nothing arrives over it
    kBreakBehindPull,  // the same, after a pull came and before its answer did
    kResume,           // it is made again, and goes on where it was (wire/session.h)
    kLose,             // it cannot be: both ends tell the scheduler
    kSettle,           // the scheduler counts w out for its lost links
    kShutdown,         // w hears that
  };
  Kind kind{};
  uint32_t w = 0;
  uint32_t k = 0;
  friend bool operator==(const SpaceChoice&, const SpaceChoice&) = default;
};

struct SpaceReport {
  uint64_t states = 0;
  uint64_t transitions = 0;
  uint64_t reads = 0;      // of walks
  uint64_t bad_reads = 0;  // read transitions that break the guarantee
  Clock lag_max = 0;
  Clock gap_max = 0;
  uint64_t deadlocks = 0;            // states where nothing can happen and somebody is not finished
  std::set<std::string> violations;  // kinds: "S1 lag", "S3 gap", ...
};

// Explores everything reachable.
SpaceReport ExploreSpace(const SpaceOptions& options);

// Paths through a space too large to explore, drawn by `seed`, each from the start to the end of
// the run; ends at the first violation, or once that many reads were checked. `states` counts
// paths. REQUIRES: options.clocks < 100, parking.
SpaceReport WalkSpace(const SpaceOptions& options, uint64_t reads, uint64_t seed);

// A state of the space as a world (sim/explore.h has what that is), for tests of its prints.
// REQUIRES: options.parking.
class PolicyWorld {
 public:
  explicit PolicyWorld(const SpaceOptions& options);
  std::vector<SpaceChoice> Enabled() const;
  void Do(const SpaceChoice& choice);
  bool Finished() const;
  const std::optional<std::string>& Violation() const { return violation_; }
  std::string Describe(const SpaceChoice& choice) const;
  void AddTo(Fingerprint* f) const;

 private:
  struct Inside;
  std::shared_ptr<const Inside> inside_;
  std::optional<std::string> violation_;
};

}  // namespace soapstone::check
