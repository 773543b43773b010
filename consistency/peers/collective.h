// Collective: allreduce and eager. Rounds in which all members sum their gradients along the hops
// of collective_schedule.h; every chunk is summed once, in one order, and copied, so that all
// members apply the same bits. Stretches of the model (PeerSeat) are summed each for itself, and a
// round ends when all are.
//
//   allreduce     a stretch begins here when the worker's gradient has all of it: the last layers
//                 are on their way while the first ones' gradients are computed
//   eager, solo   the first member whose gradient of this round is here tells all to begin; who has
//                 none takes part with what it has, and its late gradient goes with a later round
//   majority      the same, but only a member drawn anew each round may begin it, so that half of
//                 the others are there on average        (Li et al., eager-SGD, PPoPP 2020)
//
// Invariants: contributed + waiting = computed, at every event. With `partial`, a last round, which
// waits for every worker, takes along what is left. Members differ by one round at most: whoever
// has ended it has the whole gradient of each, so nobody who is behind waits for a part of its own.
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

  // Partial rounds begin by another's word, with what is whole.
  bool TakesParts() const { return partial_ == Partial::kNone; }

  // After a change of members; the seats' versions are equal. `fetched`: the values are another's,
  // and hold our contribution.
  void Resume(PeerSeat* seat, bool fetched);
  // The gradient of the round has all of `stretch`, of so many samples. REQUIRES: TakesParts.
  void OnPart(PeerSeat* seat, size_t stretch, uint64_t samples);
  void OnGradient(PeerSeat* seat, Clock clock, uint64_t samples);
  void OnParcel(PeerSeat* seat, const Parcel& parcel);
  // The worker's last gradient is here.
  void OnWorkerDone(PeerSeat* seat) { BeginIfDue(seat); }
  void Abort();
  bool Finished(const PeerSeat& seat) const {
    return seat.version >= seat.total + (partial_ == Partial::kNone ? 0 : 1);
  }
  double weight() const { return 1; }

  void AddTo(Fingerprint* f) const;

 private:
  // A parcel's step is its stretch times the hops of one, plus the hop; or this, of the parcel that
  // begins a partial round.
  static constexpr uint32_t kBeginStep = 1u << 20;

  struct Stretch {
    std::vector<Hop> hops;
    bool here = false;     // our part of this round is in the contribution
    bool started = false;  // and under way
    bool sent = false;     // the parcel of `hop`
    uint32_t hop = 0;
    uint64_t base = 0, carried = 0;  // samples: of this phase's own part; of the last chunk taken
    bool done() const { return started && hop == hops.size(); }
  };

  bool IsStarter(const PeerSeat& seat) const;
  void BeginIfDue(PeerSeat* seat);
  void BeginPartial(PeerSeat* seat);
  void Start(PeerSeat* seat, size_t stretch);
  void Advance(PeerSeat* seat, size_t stretch);
  void EndIfDone(PeerSeat* seat);

  uint32_t group_ = 0;
  Partial partial_ = Partial::kNone;
  uint64_t seed_ = 0;

  uint64_t samples_ = 0;      // of the gradient that waits
  uint64_t contributed_ = 0;  // of the contribution in hand
  bool arrived_ = false;      // a gradient came that entitles to begin this round
  bool running_ = false;      // a stretch has started
  std::vector<Stretch> stretches_;
  EarlyParcels early_;
};

}  // namespace soapstone::consistency
