// Pairwise: gossip by exchanges of two (AD-PSGD, Lian et al., ICML 2018). Members of even place are
// active, the others passive. When an active member's gradient is here it asks one passive
// neighbour, drawn anew each time, and waits:
//     ask: x_i.   passive: d = (x_i - x_j) / 2;  x_j <- x_j + d;  answer d.   active: x_i <- x_i -
//     d
// and then applies its gradient. Passive members apply theirs on arrival. Both use the same d, and
// neither takes part in anything else in between (an active member is asked by nobody), so both
// come to stand at the average, and the sum of the values is kept. Places shift when members come
// or go; one that waits may then be asked, and answers: the sum is kept all the same.
//
// Nobody waits for a member that waits: who is asked answers at once, even when done.
#pragma once

#include <optional>

#include "consistency/peers/peer_seat.h"
#include "consistency/traits.h"

namespace soapstone::consistency {

class Pairwise {
 public:
  explicit Pairwise(const PairwiseTraits& traits) : graph_(traits.graph), seed_(traits.seed) {}

  static constexpr bool kLockStep = false;
  static constexpr bool kSameValues = false;

  void Resume(PeerSeat* seat, bool fetched);
  void OnGradient(PeerSeat* seat, Clock clock, uint64_t samples);
  void OnParcel(PeerSeat* seat, const Parcel& parcel);
  void OnWorkerDone(PeerSeat*) {}
  void Abort() {}
  bool Finished(const PeerSeat& seat) const { return seat.version >= seat.total; }
  double weight() const { return 1; }
  void AddTo(Fingerprint* f) const;

 private:
  enum Step : uint32_t { kAsk = 0, kAnswer = 1 };
  // Whom it asks; none: nobody is passive, or this member is.
  std::optional<WorkerId> PartnerOf(const PeerSeat& seat) const;
  void Apply(PeerSeat* seat);

  Graph graph_;
  uint64_t seed_;
  std::optional<WorkerId> asked_;
};

}  // namespace soapstone::consistency
