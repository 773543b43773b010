// PushSum: gossip without waiting (after Stochastic Gradient Push, Assran et al., ICML 2019). A
// member holds a share omega of the weight and its parameters z; what SGP calls x is omega z:
//     z <- z - lr g(z);  send (z, omega / 2) to one other, keep omega / 2
//     on arrival:        z <- z + omega' / (omega + omega') (z' - z),  omega <- omega + omega'
// SGP takes the step in x, so that a member of small omega, which has sent more than it received,
// moves its z by lr g / omega: with nobody waiting that ruined fast members (test accuracy 0.12 of
// 0.9). In z it moves by lr g, and the model by omega's share of that. The receiver in step t is
// `hop` places on: 2^(t mod (floor(log2(N-1)) + 1)) of the exponential graph, 1 of the ring, 1 + t
// mod (N-1) of the complete one.
//
// Invariant: the sum of omega z over members and parcels in flight changes by gradients alone, and
// that of omega never: halving is exact in binary.
#pragma once

#include "consistency/peers/peer_seat.h"
#include "consistency/traits.h"

namespace soapstone::consistency {

class PushSum {
 public:
  explicit PushSum(const PushSumTraits& traits) : graph_(traits.graph) {}

  static constexpr bool kLockStep = false;
  static constexpr bool kSameValues = false;

  void Resume(PeerSeat*, bool /*fetched*/) {}
  void OnGradient(PeerSeat* seat, Clock clock, uint64_t samples);
  void OnParcel(PeerSeat* seat, const Parcel& parcel);
  void OnWorkerDone(PeerSeat*) {}
  void Abort() {}
  bool Finished(const PeerSeat& seat) const { return seat.version >= seat.total; }
  double weight() const { return weight_; }
  // A newcomer gets half of the weight; it begins with none.
  double GiveHalf() { return weight_ /= 2; }
  void Begin(double weight) { weight_ = weight; }
  // Values of `weight` come: their share of the sum. The caller merges.
  double Take(double weight) {
    weight_ += weight;
    return weight / weight_;
  }
  void AddTo(Fingerprint* f) const;

 private:
  size_t HopOf(Clock step, size_t size) const;

  Graph graph_;
  // Below it nothing is sent: shares must not vanish where nobody sends back.
  static constexpr double kWeightMin = 1.0 / (1 << 20);

  double weight_ = 1;  // omega
};

}  // namespace soapstone::consistency
