// PeerPolicy: a decentralised policy as a value. Who calls: one peer (server/peer.h) owns one and
// feeds it its worker's pulls and gradients, the parcels of other peers, and every new group of
// members; the explorer and the simulator drive the very same object.
//
// When members change, they rally: each says where it stands, and when all have, who has no values
// gets them from the lowest member of the highest version; policies in lock step go on together
// from that version. At the end each says that it has nothing more to send, and hands its values in
// when all have: then no parcel is in flight, and the mean over members is the run's result.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "consistency/collective.h"
#include "consistency/mixing.h"
#include "consistency/pairwise.h"
#include "consistency/peer_seat.h"
#include "consistency/push_sum.h"
#include "consistency/traits.h"

namespace soapstone::consistency {

// What a member says in a rally.
struct Standing {
  Clock version = 0;
  bool has_values = false;
  bool finished = false;
};

class PeerPolicy {
 public:
  // `has_values`: it is there from the job's start. `total`: clocks; `elements`: of the model.
  PeerPolicy(const PolicyTraits& traits, WorkerId self, bool has_values, Clock total,
             uint64_t elements);

  // Members, ascending; with this one. Lock-step policies: parcels from before are void.
  PeerActions OnGroup(std::vector<WorkerId> members);
  PeerActions OnPull(Clock clock);
  // The worker's gradient of `clock` is complete. Its reads were answered for that clock.
  PeerActions OnGradient(Clock clock, uint64_t samples);
  PeerActions OnParcel(const Parcel& parcel);
  PeerActions OnStanding(WorkerId from, const Standing& standing);
  // Values and optimizer state of a member at `version`; `weight`: push-sum's share of omega.
  PeerActions OnState(WorkerId from, Clock version, double weight, Ticket ticket);
  PeerActions OnFinished(WorkerId from);

  Standing standing() const { return {seat_.version, has_values_, Finished()}; }
  const PeerSeat& seat() const { return seat_; }
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
  bool Rallied() const { return standings_.size() == seat_.size(); }
  void Rally();
  void Resume(bool fetched);
  void GiveState(WorkerId to);
  void Deliver(const Parcel& parcel);
  void TakeGradient(Clock clock, uint64_t samples);
  // Answers the pull, says that it has finished, hands in: whatever has become due.
  PeerActions Settle();

  PeerSeat seat_;
  Exchange exchange_;
  bool has_values_ = false;
  bool running_ = false;   // parcels and gradients go to the exchange; else they are held
  bool rallying_ = false;  // standings are being collected
  bool fetched_ = false;   // the values came from a donor, and nothing has been done with them
  std::map<WorkerId, Standing> standings_;
  std::vector<Parcel> held_;
  std::optional<std::pair<Clock, uint64_t>> gradient_;  // held: clock, samples
  std::optional<Clock> pull_;
  std::map<WorkerId, bool> finished_;  // members that said so
  bool told_finished_ = false;         // this group
  bool handed_in_ = false;
};

}  // namespace soapstone::consistency
