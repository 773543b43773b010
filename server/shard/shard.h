// Shard: the server's actor. Validates data messages, drops duplicates, asks the policy, applies
// updates to its store, answers pulls. Several shards of one process share nothing. Its parts keep
// the books, each of one thing, and know nothing of each other:
//   ShardMembers    who may speak, as of which roster; in a tree of servers on behalf of whom
//   SeenPushes      which pushes were here already, and which clocks are ahead of their pushes
//   HeldMessages    what the policy holds or has parked, by ticket
//   Readers         who waits for values, subscribers among them, and what each has read last
//   GatheredUpdate  the update that is being put together
//   ShardRounds     word between shards of rounds that leave some workers out
//   Uplink          word from a branch of a tree to its root
//   TeamFront       the seats of a team, where a model is split over several, as one worker
//   Ledger          what comes of all that, held to the policy's guarantee
//
// Invariants
//  1. A push is applied at most once: keyed by (worker, clock, bucket, micro-batches).
//  2. A message of an epoch before its worker's admission is rejected, as is one of a non-member.
//  3. What is held or parked is bounded: pushes by `held_bytes_max`, pulls by one a worker; what is
//     remembered of pushes by `seen_pushes_max`. Who goes beyond is refused, with the reason.
// Single-threaded; keeps pointers only to shared immutable values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fingerprint.h"
#include "consistency/policy.h"
#include "server/shard/gathered_update.h"
#include "server/shard/held_messages.h"
#include "server/shard/ledger.h"
#include "server/shard/readers.h"
#include "server/shard/seen_pushes.h"
#include "server/shard/shard_members.h"
#include "server/shard/shard_options.h"
#include "server/shard/shard_rounds.h"
#include "server/shard/team_front.h"
#include "server/shard/uplink.h"
#include "server/store/store.h"
#include "wire/membership/membership.h"
#include "wire/outbox.h"

namespace soapstone::server {

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

  // From the network: kRoster, kPush, kClock, kPull, kSave, kHeld, kChosen; kCheckpoint, of which
  // it is the shell's to capture the store; at a branch of the tree kPullReply of its root.
  // Anything else is counted and dropped.
  void OnMessage(Nanos now, wire::Message message, wire::Outbox* out);

  ShardId id() const { return options_.id; }
  const ShardStats& stats() const { return stats_; }
  const Ledger& ledger() const { return ledger_; }
  const consistency::Policy& policy() const { return policy_; }
  const Store& store() const { return store_; }
  uint64_t held_bytes() const { return held_.bytes() + ApartBytes(); }  // of updates that wait
  // How its reads stand at `now`, with all of its readers.
  wire::ShardReads Reads(Nanos now) const;
  Epoch epoch() const { return members_.epoch(); }
  // The greatest clock of a push that was taken; kNoClock: none was.
  Clock newest_push() const { return seen_.newest(); }
  void AddTo(Fingerprint* f) const;

 private:
  friend struct ShardFields;  // server/replica/shard_image.h
  // From the scheduler and server 0.
  void OnRoster(const wire::Message& message, wire::Outbox* out);
  void OnSave(const wire::Message& message, wire::Outbox* out);
  // From members.
  void OnPush(wire::Message message, wire::Outbox* out);
  // Of a worker, or of a whole team.
  void TakePush(wire::Message push, wire::Outbox* out);
  void OnClock(const wire::Message& message, wire::Outbox* out);
  void OnPull(wire::Message message, wire::Outbox* out);
  // From other shards: of a round, and of the root.
  void OnShard(const wire::Message& message, wire::Outbox* out);
  void OnRoot(wire::Message message, wire::Outbox* out);

  void Join(WorkerId worker, Clock clock, wire::Outbox* out);
  void Leave(WorkerId worker, wire::Outbox* out);
  // Acknowledges the roster once this shard has come to the start clock of every member.
  void AcknowledgeRoster(wire::Outbox* out);
  void AnswerFinalPulls(wire::Outbox* out);
  void AnswerSaves(wire::Outbox* out);
  // After anything that may have moved the frontier.
  void Settle(wire::Outbox* out);

  void CarryOut(const consistency::Actions& actions, wire::Outbox* out);
  // Of a push or a pull in hand.
  void CarryOutInHand(const consistency::Action& action, wire::Outbox* out);
  void ApplyGathered(wire::Outbox* out);
  // The update in hand has left `tensor` (Store::Apply) not finite.
  void TellNotFinite(uint32_t tensor, wire::Outbox* out);
  void SendUnasked(const consistency::Action& action, wire::Outbox* out);
  void Reply(const wire::Message& pull, wire::Outbox* out);
  void Reject(const wire::Message& message, std::string why, wire::Outbox* out);
  uint64_t StalenessOf(const wire::Message& push) const {
    return readers_.StalenessOf(push.worker, push.clock, wire::As<wire::Push>(push).bucket);
  }

  // Of pushes that wait for other seats of their team.
  uint64_t ApartBytes() const {
    return members_.front() != nullptr ? members_.front()->bytes() : 0;
  }

  ShardOptions options_;  // with the policy as this level of the tree has it
  Store store_;
  consistency::Policy policy_;
  ShardStats stats_;
  Ledger ledger_;
  ShardMembers members_;
  ShardRounds rounds_;
  std::optional<Uplink> uplink_;  // of a branch
  SeenPushes seen_;
  HeldMessages held_;
  Readers readers_;
  GatheredUpdate gathered_;
  Nanos now_ = 0;  // of the message in hand
  struct Due {
    bool ack = false;                  // of the roster
    Clock drain = kClockMax;           // of what waits for others, once all members have come there
    std::vector<wire::Message> saves;  // until all members have come to the end
  };
  Due due_;
  bool not_finite_told_ = false;
};

}  // namespace soapstone::server
