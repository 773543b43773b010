// Peer: the actor beside a worker of a decentralised policy. It keeps that worker's parameters,
// takes its gradients, exchanges parcels with the other peers as its policy says, and at the end
// hands its values in to the shards, whose mean is the run's result. To its worker it is what a
// shard is: pulls and pushes mean the same.
//
// Invariants
//  1. Messages of another peer are handled in the order of their sequence numbers; what does not
//     grow is a duplicate and dropped.
//  2. What a member says under a roster that is not here yet waits for that roster; under lock
//     step, what it said under an earlier one is void.
//  3. Every ticket in hand is named by exactly one later action.
// Single-threaded; never blocks. Copyable: a copy has vectors of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "consistency/peers/peer_policy.h"
#include "server/peer/final_read.h"
#include "server/peer/held_parcels.h"
#include "server/peer/peer_channels.h"
#include "server/peer/peer_ledger.h"
#include "server/peer/peer_vectors.h"
#include "server/peer/pushed_gradient.h"
#include "wire/layout.h"
#include "wire/membership/teams.h"
#include "wire/outbox.h"

namespace soapstone::server {

struct PeerOptions {
  WorkerId id{};
  std::shared_ptr<const wire::Layout> worker_layout;  // of one shard: between worker and peer
  std::shared_ptr<const wire::Layout> shard_layout;   // of the servers
  consistency::PolicyTraits policy;
  Clock total_clocks = 0;
  size_t held_messages_max = 4096;  // waiting for a roster, or for their turn
  // Least elements of a stretch of the model that an all-reduce sums by itself: 4 MiB.
  uint64_t stretch_elements = uint64_t{1} << 20;
  bool checks = false;  // answers carry a checksum of their values
  // Beside a worker that has a seat: the other peers are those of its seat, a team is a rank to the
  // servers, and shard k of shard_layout is shards[k].
  std::optional<wire::TeamShape> team;
  std::vector<ShardId> shards;
};

// A peer's vectors; a copy of the peer gets a copy of them. The maker may keep a reference.
struct OwnVectors {
  std::shared_ptr<PeerVectors> own;

  explicit OwnVectors(std::shared_ptr<PeerVectors> vectors) : own(std::move(vectors)) {}
  OwnVectors(const OwnVectors& other) : own(other.own ? other.own->Clone() : nullptr) {}
  OwnVectors(OwnVectors&&) = default;
  OwnVectors& operator=(OwnVectors other) {
    own = std::move(other.own);
    return *this;
  }
  ~OwnVectors() = default;
};

struct PeerStats {
  uint64_t parcels_sent = 0;
  uint64_t parcel_bytes_sent = 0;  // payload
  uint64_t parcels_received = 0;
  uint64_t rounds = 0;  // optimizer steps
  uint64_t duplicates = 0;
  uint64_t rejects = 0;  // malformed, from no member, or beyond the bound
};

class Peer {
 public:
  // `vectors` null: a peer without values, as the simulator's shards without tensors.
  Peer(PeerOptions options, std::shared_ptr<PeerVectors> vectors);

  // From the scheduler: kRoster. From its worker: kPull, kPush, kClock. From peers: kParcel,
  // kState, kStanding, kFinished. From shards: kPullReply (final). Others are counted and dropped.
  void OnMessage(Nanos now, wire::Message message, wire::Outbox* out);

  // Between a worker and its own peer: it goes over no network.
  static bool IsWithinNode(const wire::Message& message);

  const PeerStats& stats() const { return stats_; }
  const PeerLedger& ledger() const { return ledger_; }
  // Before the first roster there is none.
  const consistency::PeerPolicy* policy() const { return policy_ ? &*policy_ : nullptr; }
  PeerVectors* vectors() const { return vectors_.own.get(); }
  // Messages and parcels that wait for a roster or for their turn.
  size_t held_messages() const { return channels_.early() + parcels_.size(); }
  void AddTo(Fingerprint* f) const;

 private:
  static constexpr ShardId kOnly{0};  // of the worker's layout

  void OnRoster(const wire::Message& message, wire::Outbox* out);
  void OnWorker(wire::Message message, wire::Outbox* out);
  void OnFinalPull(const wire::Message& pull, wire::Outbox* out);
  void OnPeer(wire::Message message, wire::Outbox* out);
  void TakeFromPeer(wire::Message message, wire::Outbox* out);
  void OnFinalReply(const wire::Message& reply, wire::Outbox* out);
  // Shards by the number that the shards' layout has of them, and back; none: none of its own.
  wire::Address AddressOf(ShardId shard) const;
  std::optional<ShardId> ShardAt(wire::Address address) const;
  bool PayloadFits(const wire::Message& message) const;
  // Parcels that may wait for their turn.
  size_t HeldMax() const;

  void CarryOut(const consistency::PeerActions& actions, wire::Outbox* out);
  void CarryOutSend(const consistency::PeerAction& action, wire::Outbox* out);
  void Adopt(consistency::Ticket ticket);
  void CarryOutOnVectors(const consistency::PeerAction& action, wire::Outbox* out);
  void Reply(Clock clock, wire::Outbox* out);
  uint64_t ContentOfValues() const;
  void HandIn(double weight, wire::Outbox* out);
  // `element` is not finite after a step of `round`. Said once: the job ends with it.
  void TellNotFinite(Clock round, uint64_t element, wire::Outbox* out);
  // Fills in who sends it, and the parcel's number. REQUIRES: its body is a parcel.
  void ToPeer(WorkerId to, wire::Message message, wire::Outbox* out);
  void ToAll(wire::MessageType type, wire::Outbox* out);
  void Stand(WorkerId to, wire::MessageType type, wire::Outbox* out);

  PeerOptions options_;
  OwnVectors vectors_;
  std::optional<consistency::PeerPolicy> policy_;
  PeerStats stats_;
  PeerLedger ledger_;
  std::vector<uint64_t> offsets_;  // of parameters in the flat vector

  Epoch epoch_ = 0;
  std::shared_ptr<const wire::Roster> roster_;
  Nanos now_ = 0;        // of the message in hand
  Nanos pulled_at_ = 0;  // when the worker's last pull came
  PushedGradient gradient_;
  PeerChannels channels_;
  HeldParcels parcels_;
  FinalRead final_;
  bool not_finite_told_ = false;
};

}  // namespace soapstone::server
