// PushSum: gossip without waiting (Stochastic Gradient Push, Assran et al., ICML 2019). A member
// holds a share x of the values and a share omega of the weight; its parameters are z = x / omega:
//     x <- x - lr g(z);  send (x / 2, omega / 2) to one other, keep the rest
//     on arrival:        x <- x + x',  omega <- omega + omega'
// The receiver in step t is `hop` places on: 2^(t mod (floor(log2(N-1)) + 1)) of the exponential
// graph, 1 of the ring, 1 + t mod (N-1) of the complete one.
//
// Invariant: without gradients the sums of x and of omega over members and parcels in flight never
// change; halving is exact in binary, so omega's sum is N to the bit.
#pragma once

#include "consistency/peer_seat.h"
#include "consistency/traits.h"

namespace soapstone::consistency {

class PushSum {
 public:
  explicit PushSum(const PolicyTraits& traits) : graph_(traits.graph) {}

  static constexpr bool kLockStep = false;
  static constexpr bool kSameValues = false;

  void Resume(PeerSeat*, bool /*fetched*/) {}
  void OnGradient(PeerSeat* seat, Clock clock, uint64_t samples);
  void OnParcel(PeerSeat* seat, const Parcel& parcel);
  void OnWorkerDone(PeerSeat*) {}
  void Abort() {}
  bool Finished(const PeerSeat& seat) const { return seat.version >= seat.total; }
  double weight() const { return weight_; }
  // A newcomer gets half of what is here; it begins with nothing.
  double GiveHalf() { return weight_ /= 2; }
  void Begin(double weight) { weight_ = weight; }
  void AddTo(Fingerprint* f) const;

 private:
  size_t HopOf(Clock step, size_t size) const;

  Graph graph_;
  double weight_ = 1;  // omega
};

}  // namespace soapstone::consistency
