// PeerPolicy: a decentralised policy as a value. Who calls: one peer (server/peer/peer.h) owns one
// and feeds it its worker's pulls and gradients, the parcels of other peers, and every new group of
// members; the explorer and the simulator drive the very same object.
//
// When members change, they rally: each says where it stands, again to whom it was not heard by (a
// member is told of before it can be reached), and when all have, who has no values gets them from
// the lowest member of the highest version; policies in lock step go on together from that version.
// At the end each says that it has nothing more to send, and hands its values in when all have:
// then no parcel is in flight, and the mean over members is the run's result.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "consistency/peers/collective.h"
#include "consistency/peers/mixing.h"
#include "consistency/peers/pairwise.h"
#include "consistency/peers/peer_seat.h"
#include "consistency/peers/push_sum.h"
#include "consistency/traits.h"

namespace soapstone::consistency {

struct GroupMember {
  WorkerId worker{};
  Epoch admitted = 0;  // tells processes of one rank apart
};

// What a member says in a rally.
struct Standing {
  Clock version = 0;
  bool has_values = false;
  bool finished = false;
};

class PeerPolicy {
 public:
  // `has_values`: it is there from the job's start. `total`: clocks; `stretches`: of the model's
  // elements (PeerSeat), one at least; the same for all members.
  PeerPolicy(const PolicyTraits& traits, WorkerId self, bool has_values, Clock total,
             std::vector<ElementRange> stretches);

  // Members, ascending; with this one. Lock-step policies: parcels from before are void.
  PeerActions OnGroup(std::vector<GroupMember> members);
  PeerActions OnPull(Clock clock);
  // Whether parts of a gradient may be told of before it is complete.
  bool TakesParts() const;
  // The worker's next gradient has all of a stretch. REQUIRES: TakesParts.
  PeerActions OnPart(uint32_t stretch, uint64_t samples);
  // The worker's gradient of `clock` is complete. Its reads were answered for that clock.
  PeerActions OnGradient(Clock clock, uint64_t samples);
  PeerActions OnParcel(const Parcel& parcel);
  // `heard`: it has heard where this peer stands.
  PeerActions OnStanding(WorkerId from, const Standing& standing, bool heard);
  // Values and optimizer state of a member at `version`; `weight`: push-sum's share of omega.
  PeerActions OnState(WorkerId from, Clock version, double weight, Ticket ticket);
  PeerActions OnFinished(WorkerId from);

  Standing standing() const { return {seat_.version, has_values_, Finished()}; }
  // Where it stood when this group began: what is said again must be what was said, or members
  // would not agree on who gives whom values.
  Standing said_standing() const { return standings_.at(seat_.self); }
  const PeerSeat& seat() const { return seat_; }
  // All members, heard of or not.
  const std::vector<GroupMember>& group() const { return group_; }
  bool HasHeard(WorkerId member) const { return standings_.contains(member); }
  bool lock_step() const;
  bool handed_in() const { return handed_in_; }
  // Parcels in hand, waiting for their turn.
  size_t waiting() const { return held_.size(); }
  double weight() const;
  void AddTo(Fingerprint* f) const;

 private:
  using Exchange = std::variant<Collective, Mixing, PushSum, Pairwise>;
  static Exchange MakeExchange(const PolicyTraits& traits);

  bool Finished() const;
  // Those that can be reached: this peer, and whom it has heard. Exchanges see no others.
  void SeatReachable();
  void Rally();
  void Resume(bool fetched);
  void GiveState(WorkerId to);
  void Deliver(const Parcel& parcel);
  void TakePart(uint32_t stretch, uint64_t samples);
  void TakeGradient(Clock clock, uint64_t samples);
  // Answers the pull, says that it has finished, hands in: whatever has become due.
  PeerActions Settle();

  PeerSeat seat_;
  std::vector<GroupMember> group_;
  std::map<WorkerId, Epoch> reachable_;  // admitted
  Exchange exchange_;
  bool has_values_ = false;
  bool has_run_ = false;   // a first rally has ended
  bool running_ = false;   // parcels and gradients go to the exchange; else they are held
  bool rallying_ = false;  // standings are being collected
  bool fetched_ = false;   // the values came from a donor, and nothing has been done with them
  std::map<WorkerId, Standing> standings_;
  std::vector<Parcel> held_;
  std::vector<std::pair<uint32_t, uint64_t>> parts_;    // held: stretch, samples
  std::optional<std::pair<Clock, uint64_t>> gradient_;  // held: clock, samples
  std::optional<Clock> pull_;
  std::map<WorkerId, bool> finished_;  // members that said so
  bool told_finished_ = false;         // this group
  bool handed_in_ = false;
};

}  // namespace soapstone::consistency
