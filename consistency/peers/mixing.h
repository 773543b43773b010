// Mixing: gossip in lock step with neighbours. In round t a member sends its values x^t, and when
// its neighbours' are here and its own gradient g_i(x_i^t):
//     x_i^{t+1} = sum_j W_ij x_j^t - lr g_i                 (D-PSGD, Lian et al., NIPS 2017)
// W_ij = 1 / (1 + neighbours) on a regular graph, so W is doubly stochastic and the mean of the
// values moves by the gradients alone. Sums are taken in the order of ranks.
//
// gossipgrad: one partner a round, 2^(t mod L) places on in an order of the ranks that is drawn
// anew every L = ceil(log2 N) rounds; W = (I + permutation) / 2      (Daily et al., GossipGraD,
// 2018). Members that are no neighbours may be as many rounds apart as the graph is wide.
#pragma once

#include <vector>

#include "consistency/peers/peer_seat.h"
#include "consistency/traits.h"

namespace soapstone::consistency {

// Members whose values come to (and go from) member `me` of `size` in round `round`; ascending.
struct Neighbours {
  std::vector<size_t> in;
  std::vector<size_t> out;
};
Neighbours NeighboursOf(Graph graph, uint64_t seed, Clock round, size_t me, size_t size);

class Mixing {
 public:
  explicit Mixing(const MixingTraits& traits) : graph_(traits.graph), seed_(traits.seed) {}

  static constexpr bool kLockStep = true;
  static constexpr bool kSameValues = false;

  void Resume(PeerSeat* seat, bool fetched);
  void OnGradient(PeerSeat* seat, Clock clock, uint64_t samples);
  void OnParcel(PeerSeat* seat, const Parcel& parcel);
  void OnWorkerDone(PeerSeat*) {}
  void Abort() { early_.clear(); }
  bool Finished(const PeerSeat& seat) const { return seat.version >= seat.total; }
  double weight() const { return 1; }
  void AddTo(Fingerprint* f) const { early_.AddTo(f); }

 private:
  void SendValues(PeerSeat* seat);
  void Advance(PeerSeat* seat);

  Graph graph_;
  uint64_t seed_;
  EarlyParcels early_;
};

}  // namespace soapstone::consistency
