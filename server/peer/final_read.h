// FinalRead: the worker's read of the run's result, which its peer asks of all shards: what each
// has answered, until all have. The peer alone calls it. A value: copied with its peer; keeps the
// shards' layout, which is shared and immutable.
//
// Invariants
//  1. An answer is waited for of each shard, once, from Ask until Finish. Asked again for the same
//     clock, what has come stays.
//  2. Flat has of each element what the shard answered that has it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "server/peer/peer_vectors.h"
#include "wire/layout.h"

namespace soapstone::server {

class FinalRead {
 public:
  explicit FinalRead(std::shared_ptr<const wire::Layout> shard_layout)
      : layout_(std::move(shard_layout)) {}

  // The worker asks for the values after `clock`.
  void Ask(Clock clock);
  bool WaitsFor(ShardId shard) const {
    return clock_.has_value() && Index(shard) < answered_.size() && !answered_[Index(shard)];
  }
  // Whether an answer has a frame for each of the shard's slices, of its size in `vectors`.
  bool Fits(ShardId shard, const Buffers& answer, const PeerVectors& vectors) const;
  // REQUIRES: WaitsFor, and Fits where there are values.
  void Take(ShardId shard, Buffers answer);
  bool complete() const;
  // The values of all shards, as a flat vector of the model. `offsets`: ParamOffsets. REQUIRES:
  // complete().
  Buffer Flat(const std::vector<uint64_t>& offsets, const PeerVectors& vectors) const;
  // The worker is answered: the clock that it asked for. REQUIRES: it waits.
  Clock Finish() { return *std::exchange(clock_, std::nullopt); }

  void AddTo(Fingerprint* f) const;

 private:
  std::shared_ptr<const wire::Layout> layout_;
  std::optional<Clock> clock_;  // of the worker's pull, while it waits
  std::vector<Buffers> answers_;
  std::vector<bool> answered_;
};

}  // namespace soapstone::server
