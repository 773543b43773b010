// The state space of `backup`: P workers, K shards that tell each other which updates a round
// takes, clocks up to C, and the shipped consistency::Policy object of each shard, with the steps
//   Pull(w, k)      a pull of w is answered or parked at shard k; an answer of a later version lets
//                   the worker go on from there, and what other shards answered before is void
//   Tick(w)         w has read one version on all shards: it issues update and clock on every
//   channel Deliver(w, k)   the head of channel (w, k) arrives: an update, or a clock Tell(k),
//   Choose(k)  the head of the channel from shard k to shard 0, or back, arrives
// plus, in the fault menu, crash (what is in flight is lost; each shard hears of it in its own
// time), clean leave, two-step join, duplicates of every kind of message, restore of a shard, and
// connections that break or are lost as in policy_space.h; where two shards cannot reach one
// another any more the job ends, and nothing is to be explored. Exhaustive: every reachable state
// is visited once.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "base/ids.h"

namespace soapstone::check {

// Deliberate bugs, each around the shipped policy object. kNone is the real thing.
enum class BackupMutant {
  kNone,
  kEachShardChooses,   // no shard asks another
  kChoosesOnOwnClock,  // shard 0 does not wait until the others hold the updates
  kOneTooFew,          // rounds wait for one worker less
  kOneTooMany,         // for one more
  kChosenLost,         // what shard 0 has chosen does not arrive
  kChosenUnchecked,    // a shard takes a choice for the round that is open, whichever it was for
  kHeldUnchecked,      // a second "held" counts as another shard's
  kLateApplied,        // what was left out is applied all the same
  kVersionsMixed,      // a worker computes with what shards answered, of whatever version
  kLostForgotten,      // a shard forgets what a lost worker had pushed
  kLeaveWakesNobody,   // rounds that a leave completes stay open
  kUpdateLost,         // the first update of worker 0 does not go in
  kUpdateTwice,        // and goes in twice
  kNoResume,           // what a broken connection had under way is not sent again
  kNoLinkLost,         // who cannot reach a shard any more says so to nobody
};
std::string Name(BackupMutant mutant);

struct BackupOptions {
  uint32_t spare = 1;  // b
  uint32_t workers = 3;
  uint32_t shards = 2;
  Clock clocks = 2;
  bool one_message = true;  // an update and its clock are one message; else two, in order
  int crashes = 0;
  int leaves = 0;
  int joins = 0;  // of a worker that crashed or left
  int restores = 0;
  int duplicates = 0;
  int breaks = 0;  // a connection breaks, of a worker or of two shards, and is made again later
  int losses = 0;  // a worker and a shard cannot reach one another any more
  bool until_violation = false;  // the first one ends the exploration
  bool until_deadlock = false;   // the first S5 does
  BackupMutant mutant = BackupMutant::kNone;
};

struct BackupReport {
  uint64_t states = 0;
  uint64_t transitions = 0;
  uint64_t left_out = 0;  // transitions in which an update was left out
  uint64_t jumps = 0;     // in which a worker went on from a later clock
  std::set<std::string> violations;
};

// Explores everything reachable.
BackupReport ExploreBackup(const BackupOptions& options);

}  // namespace soapstone::check
