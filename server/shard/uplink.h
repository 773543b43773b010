// Uplink: what a branch of the tree of servers (consistency/levels.h) says to its root shard, in
// the words of a worker: the branch of group g is worker g there. Single-threaded, a value.
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory/buffer.h"
#include "consistency/levels.h"
#include "server/store/store.h"
#include "wire/outbox.h"

namespace soapstone::server {

class Uplink {
 public:
  Uplink(ShardId branch, uint32_t root_shards);

  wire::Address root() const { return root_; }

  // What a round gathered of one bucket: one push, with the sum of `parts` as its payload.
  struct Gathered {
    Clock clock = 0;
    BucketId bucket{};
    uint32_t leaf_count = 1;
  };
  void Push(Epoch epoch, const Gathered& gathered, const std::vector<Contribution>& parts,
            Buffers payload, wire::Outbox* out);
  // The branch has completed `clock`, with all the pushes since the last call.
  void Complete(Epoch epoch, Clock clock, wire::Outbox* out);
  // Asks for the values to be used at `clock`; `final`: those after the last clock.
  void Fetch(Epoch epoch, Clock clock, bool final, wire::Outbox* out);

 private:
  wire::Message ToRoot(wire::MessageType type, Epoch epoch, Clock clock) const;

  wire::Address self_;
  wire::Address root_;
  WorkerId group_{};
  uint32_t pushes_ = 0;
};

// The members of a root shard, which are groups. A group goes on as it is while one that was in it
// before is; else it is another member, which is admitted with the roster of `epoch`.
// `before` and `groups_before` are what the shard had till then: workers, and groups.
wire::Roster GroupRoster(const wire::Roster& before, const wire::Roster& groups_before,
                         const wire::Roster& roster, Epoch epoch,
                         const consistency::PolicyTraits& traits);
// The members of a branch: the workers of its group.
wire::Roster BranchRoster(const wire::Roster& roster, uint32_t group,
                          const consistency::PolicyTraits& traits);

}  // namespace soapstone::server
