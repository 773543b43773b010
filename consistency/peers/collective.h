// Collective: allreduce and eager. Rounds in which all members sum their gradients along the hops
// of collective_schedule.h; every chunk is summed once, in one order, and copied, so that all
// members apply the same bits.
//
//   allreduce     a round begins here when the worker's gradient is here
//   eager, solo   the first member whose gradient of this round is here tells all to begin; who has
//                 none takes part with what it has, and its late gradient goes with a later round
//   majority      the same, but only a member drawn anew each round may begin it, so that half of
//                 the others are there on average        (Li et al., eager-SGD, PPoPP 2020)
//
// Invariants: contributed + waiting = computed, at every event. With `partial`, a last round, which
// waits for every worker, takes along what is left. Members differ by one round at most.
#pragma once

#include <vector>

#include "consistency/peers/collective_schedule.h"
#include "consistency/peers/peer_seat.h"
#include "consistency/traits.h"

namespace soapstone::consistency {

class Collective {
 public:
  explicit Collective(const CollectiveTraits& traits)
      : group_(traits.group), partial_(traits.partial), seed_(traits.seed) {}

  static constexpr bool kLockStep = true;
  static constexpr bool kSameValues = true;

  // After a change of members; the seats' versions are equal. `fetched`: the values are another's,
  // and hold our contribution.
  void Resume(PeerSeat* seat, bool fetched);
  void OnGradient(PeerSeat* seat, Clock clock, uint64_t samples);
  void OnParcel(PeerSeat* seat, const Parcel& parcel);
  // The worker's last gradient is here.
  void OnWorkerDone(PeerSeat* seat) { BeginIfDue(seat); }
  void Abort() {
    running_ = false;
    early_.clear();
  }
  bool Finished(const PeerSeat& seat) const {
    return seat.version >= seat.total + (partial_ == Partial::kNone ? 0 : 1);
  }
  double weight() const { return 1; }

  void AddTo(Fingerprint* f) const;

 private:
  static constexpr uint32_t kBeginStep = 1u << 20;  // of the parcel that begins a partial round

  bool IsStarter(const PeerSeat& seat) const;
  void BeginIfDue(PeerSeat* seat);
  void Begin(PeerSeat* seat);
  void Advance(PeerSeat* seat);
  void End(PeerSeat* seat);

  uint32_t group_ = 0;
  Partial partial_ = Partial::kNone;
  uint64_t seed_ = 0;

  uint64_t samples_ = 0;      // of the gradient that waits
  uint64_t contributed_ = 0;  // of the contribution in hand
  bool arrived_ = false;      // a gradient came that entitles to begin this round
  bool running_ = false;
  std::vector<Hop> hops_;
  uint32_t step_ = 0;
  bool sent_ = false;                // step_'s parcel
  uint64_t base_ = 0, carried_ = 0;  // samples: of this phase's own part; of the last chunk taken
  EarlyParcels early_;
};

}  // namespace soapstone::consistency
