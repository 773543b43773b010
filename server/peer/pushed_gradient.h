// PushedGradient: what its worker has pushed to a peer, bucket by bucket, until the worker's clock
// says that this is all; and how many samples are in the vectors' gradient that no step has taken.
// The peer alone calls it. A value: copied with its peer, keeps no pointers.
//
// Invariants
//  1. The vectors have a clock's pushes all at once, when it is complete: what a policy does with
//     the gradient meanwhile is done with whole ones. With stretches they have each push as it
//     comes, and the policy is told of each stretch once, when all of it is here.
//  2. samples() is the sum over the clocks completed since TakeSamples, of each the most that any
//     of its pushes says: buckets of one clock stand for the same samples. With stretches it is 0.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "server/peer/peer_vectors.h"
#include "wire/message.h"

namespace soapstone::server {

class PushedGradient {
 public:
  // Whether a push is of one of these buckets, with a frame a slice, of its size in `vectors`;
  // null: there are no values, and any frames will do.
  static bool Fits(const wire::Message& push, const std::vector<wire::Bucket>& buckets,
                   const PeerVectors* vectors);

  // From now on pushes are added at once, by stretches (PeerSeat), two at least. REQUIRES: between
  // two clocks.
  void SetStretches(const std::vector<ElementRange>& stretches) { stretches_ = stretches; }
  bool by_stretches() const { return !stretches_.empty(); }

  // REQUIRES: it fits the worker's layout.
  void Add(wire::Message push) { pushes_.push_back(std::move(push)); }
  // With stretches: adds it to the gradient, and returns the stretches that are whole with it.
  std::vector<uint32_t> AddPart(const wire::Message& push, const std::vector<wire::Bucket>& buckets,
                                const std::vector<uint64_t>& offsets, PeerVectors* vectors);
  // Adds the pushes to the gradient, and returns how many samples they stand for. `buckets`: of the
  // worker's layout; `offsets`: ParamOffsets; `vectors` null: there are no values.
  uint64_t Complete(const std::vector<wire::Bucket>& buckets, const std::vector<uint64_t>& offsets,
                    PeerVectors* vectors);

  uint64_t samples() const { return samples_; }
  // A step has taken the gradient, or it is staged for others.
  uint64_t TakeSamples() { return std::exchange(samples_, 0); }
  void AddTo(Fingerprint* f) const;

 private:
  void AddTo(PeerVectors* vectors, const wire::Message& push,
             const std::vector<wire::Slice>& slices, const std::vector<uint64_t>& offsets) const;

  std::vector<wire::Message> pushes_;  // of the clock in hand
  std::vector<ElementRange> stretches_;
  std::vector<uint64_t> missing_;  // of the clock in hand: elements that are not here, by stretch
  uint64_t part_samples_ = 0;
  uint64_t samples_ = 0;
};

}  // namespace soapstone::server
