// Shard: the server's actor. Validates data messages, drops duplicates, asks the policy, applies
// updates to its store, answers pulls. Several shards of one process share nothing.
//
// Invariants
//  1. A push is applied at most once: keyed by (worker, clock, bucket, leaves).
//  2. A message of an epoch before its worker's admission is rejected, as is one of a non-member.
//  3. What is held or parked is bounded: pushes by `held_bytes_max`, pulls by one a worker; what is
//     remembered of pushes by `seen_pushes_max`. Who goes beyond is refused, with the reason.
// Single-threaded; keeps pointers only to shared immutable values.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/fingerprint.h"
#include "base/memory/recycling.h"
#include "consistency/policy.h"
#include "server/shard/ledger.h"
#include "server/shard/uplink.h"
#include "server/store/store.h"
#include "wire/layout.h"
#include "wire/membership/membership.h"
#include "wire/outbox.h"

namespace soapstone::server {

struct ShardOptions {
  ShardId id{};
  std::shared_ptr<const wire::Layout> layout;
  consistency::PolicyTraits policy;
  uint32_t leaf_count = 1;
  Clock final_clock = 0;  // shard-visible clocks of the run (PolicyTraits::Rounds)
  uint64_t held_bytes_max = uint64_t{8} << 30;  // the shell takes it from the machine's memory
  // Of one worker and clock, 16 bytes each: it sends one a bucket and node of the summation tree.
  uint64_t seen_pushes_max = uint64_t{1} << 22;
};

// Counted since construction. Reads and updates are in the ledger.
struct ShardStats {
  uint64_t pushes_applied = 0;
  uint64_t duplicates = 0;
  uint64_t left_out = 0;  // pushes that came too late for their round
  uint64_t rejects = 0;
  friend bool operator==(const ShardStats&, const ShardStats&) = default;
};

class Shard {
 public:
  Shard(ShardOptions options, Store store);

  // From the network: kRoster, kPush, kClock, kPull, kSave, kHeld, kChosen; at a branch of the tree
  // kPullReply and kReject of its root. Anything else is
  // counted and dropped.
  void OnMessage(Nanos now, wire::Message message, wire::Outbox* out);

  ShardId id() const { return options_.id; }
  const ShardStats& stats() const { return stats_; }
  const Ledger& ledger() const { return ledger_; }
  const consistency::Policy& policy() const { return policy_; }
  const Store& store() const { return store_; }
  Epoch epoch() const { return epoch_; }
  void AddTo(Fingerprint* f) const;

 private:
  struct PushKey {
    BucketId bucket{};
    MicroBatchRange leaves;
    friend bool operator==(const PushKey&, const PushKey&) = default;
    template <typename H>
    friend H AbslHashValue(H state, const PushKey& key) {
      return H::combine(std::move(state), key.bucket, key.leaves.begin, key.leaves.end);
    }
  };
  struct Seen {
    Clock clock = kNoClock;
    absl::flat_hash_set<PushKey> pushes;         // of `clock`; never gone through
    uint64_t pushes_digest = 0;                  // of that set, in whatever order it came
    std::optional<wire::Message> clock_waiting;  // arrived before its pushes
    consistency::Ticket pull{};                  // its latest pull in hand, if any
    Nanos asked_at = 0;                          // when that came; subscribed: its clock
    Nanos queued_ns = 0;                         // and how long it had waited for us
    std::vector<uint64_t> versions;              // by bucket, at its latest read
  };

  void OnRoster(const wire::Message& message, wire::Outbox* out);
  // The members that this shard has, of those that the job has.
  wire::Roster MembersOf(const wire::Roster& roster, Epoch epoch, wire::Outbox* out);
  // Where member `worker` sends from, and is answered.
  wire::Address AddressOf(WorkerId worker) const;
  bool HasValues(const wire::Message& message) const;
  void OnRoot(wire::Message message, wire::Outbox* out);
  void ForgetWorker(WorkerId worker);
  void OnPush(Nanos now, wire::Message message, wire::Outbox* out);
  void OnClock(Nanos now, const wire::Message& message, wire::Outbox* out);
  void OnPull(Nanos now, wire::Message message, wire::Outbox* out);
  // The message's worker waits for values from now on.
  void NoteAsked(const wire::Message& message);
  void OnSave(const wire::Message& message, wire::Outbox* out);

  Seen& SeenOf(WorkerId worker);
  // Empty when the message may be taken, else why not.
  std::string WhyNotTaken(const wire::Message& message) const;
  std::string WhyPushIsMalformed(const wire::Message& message) const;
  std::string WhyPullIsMalformed(const wire::Message& message) const;
  enum class Memory : uint8_t { kNew, kSeenBefore, kFull };
  Memory RememberPush(const wire::Message& push);
  void Reject(const wire::Message& message, std::string why, wire::Outbox* out);
  uint64_t StalenessOf(const wire::Message& push) const;
  void Join(WorkerId worker, Clock clock, wire::Outbox* out);
  void CarryOut(const consistency::Actions& actions, wire::Outbox* out);
  void CarryOutInHand(const consistency::Action& action, wire::Outbox* out);
  void ApplyGathered(wire::Outbox* out);
  // The update in hand has left `tensor` (Store::Apply) not finite.
  void TellNotFinite(uint32_t tensor, wire::Outbox* out);
  void Reply(const wire::Message& pull, wire::Outbox* out);
  void TellShards(const consistency::Action& action, wire::Outbox* out);
  void OnShard(const wire::Message& message, wire::Outbox* out);
  void SendUnasked(WorkerId worker, Clock clock, wire::Outbox* out);
  void AnswerFinalPulls(wire::Outbox* out);
  // Acknowledges the roster once this shard has come to the start clock of every member.
  void AcknowledgeRoster(wire::Outbox* out);
  // After anything that may have moved the frontier.
  void Settle(wire::Outbox* out);

  ShardOptions options_;  // with the policy as this level of the tree has it
  consistency::Level level_;
  std::optional<Uplink> uplink_;  // of a branch
  bool final_fetched_ = false;    // a branch: the last values are asked for
  Store store_;
  consistency::Policy policy_;
  ShardStats stats_;
  Ledger ledger_;
  Nanos now_ = 0;  // of the message in hand
  Epoch epoch_ = 0;
  bool ack_due_ = false;
  wire::Roster roster_;   // of this shard's members
  wire::Roster workers_;  // in a tree: as the scheduler sent it, and as the root has it
  wire::Roster groups_;
  uint64_t next_ticket_ = 1;
  uint64_t held_bytes_ = 0;
  // Held pushes, parked pulls.
  std::map<consistency::Ticket, wire::Message, std::less<>,
           RecyclingAllocator<std::pair<const consistency::Ticket, wire::Message>>>
      in_hand_;
  bool not_finite_told_ = false;
  std::vector<Contribution> gathered_;
  BucketId gathered_bucket_{};
  Clock gathered_clock_ = 0;
  uint32_t gathered_leaf_count_ = 0;
  std::vector<uint64_t> versions_;  // by bucket: updates applied
  std::vector<Seen> seen_;          // by worker index
  std::map<WorkerId, wire::Message> final_pulls_;
};

}  // namespace soapstone::server
