// ShardRounds: what the shards of a job tell each other of a round that closes without its last
// workers (consistency/gates/backup_gate.h): each tells shard 0 whose pushes it holds, and shard 0
// tells the others whose updates the round takes. The shard has one, and calls it with what its
// policy decides and with what other shards say. A value, and stateless: which round it is, and who
// is in it, is the policy's.
//
// Invariants
//  1. Word of what is held goes to shard 0, a choice once to every shard but shard 0; they name
//     this shard, and the round as a clock.
//  2. Of another shard's word that is taken the sender is a shard of the job, and a choice is shard
//     0's; whom it names is a rank of the job. Nobody else can close a round.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "base/ids.h"
#include "wire/outbox.h"

namespace soapstone::server {

class ShardRounds {
 public:
  ShardRounds(ShardId self, uint32_t shards) : self_(self), shards_(shards) {}

  // All pushes of `worker` for round `clock` are here.
  void TellHeld(Epoch epoch, WorkerId worker, Clock clock, wire::Outbox* out) const;
  // Round `clock` takes the updates of `chosen`, ascending. REQUIRES: this is shard 0.
  void TellChosen(Epoch epoch, absl::Span<const WorkerId> chosen, Clock clock,
                  wire::Outbox* out) const;
  // Whether a kHeld or kChosen is of another shard that may say so, and whole. `worker_count`: of
  // the members' roster.
  bool Takes(const wire::Message& message, uint32_t worker_count) const;

 private:
  wire::Message Word(wire::MessageType type, Epoch epoch, Clock clock) const;

  ShardId self_;
  uint32_t shards_;
};

}  // namespace soapstone::server
