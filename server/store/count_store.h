// CountStore: for the simulator and the checkers, what was applied in place of what it makes. The
// store (store.h) has one, alone or beside its values.
//
// Invariant: a bucket's count grows by one a contribution, and its sum by that contribution's
// integer, whatever their order. The order in which the parts of a contribution were joined shows.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/memory/buffer.h"
#include "base/memory/state_image.h"
#include "server/store/contribution.h"

namespace soapstone::server {

// A payload of counts: its first 8 bytes, or all 16.
struct CountedPart {
  int64_t sum = 0;
  uint64_t order = 0;  // of the parts that it was joined of
  friend bool operator==(const CountedPart&, const CountedPart&) = default;
};
// Sums of floats depend on their order from three parts on; this does from two.
inline CountedPart Join(const CountedPart& sum, const CountedPart& part) {
  return {sum.sum + part.sum, sum.order * 0x9E3779B97F4A7C15u + part.order};
}
// What it lacks is 0.
CountedPart CountedPartOf(const Buffer& payload);

// Counts instead of values: per bucket the applied contributions and the sums of their payloads
// (absent: 0).
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
    uint64_t order = 0;
    template <class Self, class Visitor>
    static void Visit(Self& self, Visitor&& visit) {
      visit(self.applied, self.sum, self.order);
    }
    friend bool operator==(const Count&, const Count&) = default;
  };
  const std::vector<Count>& buckets() const { return buckets_; }
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(Fixed(self.buckets_));
  }

 private:
  std::vector<Count> buckets_;
};

}  // namespace soapstone::server
