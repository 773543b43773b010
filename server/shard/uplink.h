// Uplink: what a branch of the tree of servers (consistency/levels.h) says to its root shard, in
// the words of a worker: the branch of group g is worker g there. The branch's shard has one, and
// calls it with what its policy decides. Single-threaded, a value: copied with its shard.
//
// Invariants
//  1. All goes from the branch's shard to the root shard of its slices, in its group's name.
//  2. Complete says how many pushes were sent since the one before.
//  3. The values after the last clock are asked for once, until they come or the branch is another
//     member to its root.
#pragma once

#include <cstdint>
#include <utility>

#include "base/fingerprint.h"
#include "base/memory/buffer.h"
#include "consistency/levels.h"
#include "server/shard/gathered_update.h"
#include "wire/outbox.h"

namespace soapstone::server {

class Uplink {
 public:
  Uplink(ShardId branch, uint32_t root_shards);

  wire::Address root() const { return root_; }

  // What a round gathered of one bucket: one push, with the sum of its parts as its payload.
  // REQUIRES: it is not empty.
  void Push(Epoch epoch, const GatheredUpdate& gathered, Buffers payload, wire::Outbox* out);
  // The branch has completed `clock`, with all the pushes since the last call.
  void Complete(Epoch epoch, Clock clock, wire::Outbox* out);
  // Asks for the values to be used at `clock`.
  void Fetch(Epoch epoch, Clock clock, wire::Outbox* out);
  // Asks for those after the last clock, `clock`, unless they are asked for already.
  void FetchFinal(Epoch epoch, Clock clock, wire::Outbox* out);
  // They have come. False: nobody asks for them, this is a second answer.
  bool TakeFinal() { return std::exchange(final_asked_, false); }
  // To the root the branch is another member from now on, and asks for them anew.
  void Restart() { final_asked_ = false; }

  void AddTo(Fingerprint* f) const { f->Add(final_asked_); }

 private:
  wire::Message ToRoot(wire::MessageType type, Epoch epoch, Clock clock) const;

  wire::Address self_;
  wire::Address root_;
  WorkerId group_{};
  uint32_t pushes_ = 0;  // since the last Complete
  bool final_asked_ = false;
};

}  // namespace soapstone::server
