// CountStore: for the simulator and the checkers, what was applied in place of what it makes. The
// store (store.h) has one, alone or beside its values.
//
// Invariant: a bucket's count grows by one a contribution, and its sum by that contribution's
// integer, whatever their order.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "server/store/contribution.h"

namespace soapstone::server {

// Counts instead of values: per bucket the applied contributions and the sum of their int64
// payloads (8 bytes; absent: 0).
class CountStore {
 public:
  explicit CountStore(uint32_t bucket_count) : buckets_(bucket_count) {}
  void Apply(BucketId bucket, const std::vector<Contribution>& parts);
  // Counts contributions whose payloads are no integers.
  void Add(BucketId bucket, uint64_t contributions) {
    buckets_[Index(bucket)].applied += contributions;
  }
  struct Count {
    uint64_t applied = 0;
    int64_t sum = 0;
    friend bool operator==(const Count&, const Count&) = default;
  };
  const std::vector<Count>& buckets() const { return buckets_; }

 private:
  std::vector<Count> buckets_;
};

}  // namespace soapstone::server
