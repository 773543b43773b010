// Histogram: how often whole numbers occurred, in fixed buckets: 0 to 15 have one each, then ranges
// double, and from 65,536 on all share the last. A value of fixed size: ledgers keep two for each
// worker and shard.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace soapstone {

class Histogram {
 public:
  static constexpr size_t kBuckets = 29;

  void Add(uint64_t value, uint64_t times = 1) {
    counts_[BucketOf(value)] += times;
    max_ = std::max(max_, value);
  }
  void Add(const Histogram& other) {
    for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
    max_ = std::max(max_, other.max_);
  }

  uint64_t count() const {
    uint64_t sum = 0;
    for (const uint64_t n : counts_) sum += n;
    return sum;
  }
  uint64_t max() const { return max_; }  // exact; 0 where nothing was added
  uint64_t CountIn(size_t bucket) const { return counts_[bucket]; }

  // Bucket i counts [First(i), First(i + 1)).
  static constexpr uint64_t First(size_t bucket) {
    return bucket < kSingles ? bucket : kSingles << (bucket - kSingles);
  }
  static constexpr size_t BucketOf(uint64_t value) {
    if (value < kSingles) return value;
    return std::min<size_t>(kSingles + std::bit_width(value / kSingles) - 1, kBuckets - 1);
  }

  friend bool operator==(const Histogram&, const Histogram&) = default;
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.counts_, self.max_);
  }

 private:
  static constexpr uint64_t kSingles = 16;

  std::array<uint64_t, kBuckets> counts_{};
  uint64_t max_ = 0;
};

}  // namespace soapstone
