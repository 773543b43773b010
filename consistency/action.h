// Events and actions of the policy contract: what a shard tells its policy, and what the policy
// tells the shard to do. Opaque on purpose: a policy sees workers, clocks and tickets, never a
// tensor, a message or a peer. Time comes as an argument, and only the intervals between arrivals
// mean anything.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/memory/recycling.h"

namespace soapstone::consistency {

// The shard's own name for a push or a pull that it has in hand.
enum class Ticket : uint64_t {};

struct PushEvent {
  Nanos now = 0;
  WorkerId worker{};
  Clock clock = 0;  // the worker's clock while it computed this update (0-based)
  BucketId bucket{};
  MicroBatchRange micro_batches;  // micro-batches summed in it
  Ticket ticket{};
  uint64_t staleness = 0;  // updates applied to the bucket since the worker's read
  double mass = 0;         // largest change of a parameter it stands for (value policies only)
};

struct ClockEvent {
  Nanos now = 0;
  WorkerId worker{};
  Clock completed = 0;  // all its updates of clocks below this have been seen here
};

struct PullEvent {
  Nanos now = 0;
  WorkerId worker{};
  Clock clock = 0;  // the clock at which the worker will use what it reads
  Ticket ticket{};
};

enum class ActionKind : uint8_t {
  kApply,          // push: apply this update now, times `weight`
  kGather,         // held push: append it, times `weight`, to the sum being gathered
  kApplyGathered,  // apply the gathered sum as one update (the fixed order of the tree, or as
                   // named)
  kHold,           // push: keep it; a later action names it
  kDrop,           // push: already counted; forget it silently
  kReply,          // pull: answer it now
  kPark,           // pull: keep it; a later kReply names it
  kReject,         // push or pull: against the protocol; say so to the worker
  kLeaveOut,       // push: too late for its round; forget it, and count it
  kSend,           // send `worker` the values unasked, for its clock `clock`
  kTellHeld,       // tell shard 0: all pushes of `worker` for round `clock` are held here
  kTellRoot,       // tell the root that this branch has completed `clock`
  kFetch,          // ask the root for the values of `clock`; Policy::OnFetched follows
  kTellChosen,     // tell all other shards: round `clock` takes the updates of Policy::chosen
};

struct Action {
  ActionKind kind{};
  Ticket ticket{};
  float weight = 1;
  WorkerId worker{};
  Clock clock = 0;
  friend bool operator==(const Action&, const Action&) = default;
};

// Carried out in order.
using Actions = std::vector<Action, RecyclingAllocator<Action>>;

}  // namespace soapstone::consistency
