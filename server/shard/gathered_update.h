// GatheredUpdate: the update that a shard is putting together: contributions to one bucket, which
// its store applies as one, or a branch sends on as one. The shard adds what its policy names,
// makes the update of it, and clears it. A value: copied with its shard, keeps no pointers.
//
// Invariants
//  1. The parts are those added since Clear, in that order.
//  2. Bucket, clock and micro-batch count are those of the last part added: the store is given all
//  parts
//     of an update under the clock of the last.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "server/store/contribution.h"
#include "wire/message.h"

namespace soapstone::server {

// What a push is of an update, times the policy's `weight`.
Contribution ContributionOf(wire::Message push, float weight);

class GatheredUpdate {
 public:
  // REQUIRES: `push` is of the bucket that the other parts are of.
  void Add(wire::Message push, float weight);
  // Their memory stays, for the next.
  void Clear() { parts_.clear(); }

  bool empty() const { return parts_.empty(); }
  const std::vector<Contribution>& parts() const { return parts_; }
  BucketId bucket() const { return bucket_; }
  Clock clock() const { return clock_; }
  uint32_t micro_batch_count() const { return micro_batch_count_; }
  // Whose part has the number of the greatest magnitude, the first of several. REQUIRES: !empty().
  WorkerId Greatest(bool of_table) const;

 private:
  std::vector<Contribution> parts_;
  BucketId bucket_{};
  Clock clock_ = 0;
  uint32_t micro_batch_count_ = 0;
};

}  // namespace soapstone::server
