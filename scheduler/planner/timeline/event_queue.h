// The simulator's queue of tasks that may begin: 64-bit keys, smallest first. No key is less than
// the last that was taken, so that a calendar will do (Brown 1988): keys are put into buckets by
// their upper bits, unsorted, and a bucket is sorted when its turn comes.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace soapstone::planner {

class EventQueue {
 public:
  // Forgets all keys. Most that come are to be less than `largest`, so that they share out the
  // buckets; the others share the last one.
  void Clear(uint64_t largest) {
    for (size_t word = 0; filled_words_ != 0; filled_words_ &= filled_words_ - 1) {
      word = static_cast<size_t>(std::countr_zero(filled_words_));
      for (; filled_[word] != 0; filled_[word] &= filled_[word] - 1) {
        first_[64 * word + static_cast<size_t>(std::countr_zero(filled_[word]))] = kNone;
      }
    }
    nodes_.clear();
    turn_.clear();
    at_ = 0;
    shift_ =
        static_cast<uint32_t>(std::max(0, static_cast<int>(std::bit_width(largest)) - kBucketBits));
  }
  bool empty() const { return turn_.empty() && filled_words_ == 0; }

  // REQUIRES key at least the last that Pop returned
  void Push(uint64_t key) {
    const size_t bucket = std::min<uint64_t>(key >> shift_, kBuckets - 1);
    if (bucket == at_) {
      turn_.push_back(key);
      return Sift(turn_.size() - 1);
    }
    nodes_.push_back({key, first_[bucket]});
    first_[bucket] = static_cast<uint32_t>(nodes_.size() - 1);
    filled_[bucket / 64] |= uint64_t{1} << (bucket % 64);
    filled_words_ |= uint64_t{1} << (bucket / 64);
  }

  // REQUIRES !empty()
  uint64_t Pop() {
    if (turn_.empty()) Turn();
    const uint64_t key = turn_.back();
    turn_.pop_back();
    return key;
  }

 private:
  static constexpr int kBucketBits = 12;
  static constexpr size_t kBuckets = size_t{1} << kBucketBits;
  static constexpr size_t kFew = 8;
  static constexpr uint32_t kNone = UINT32_MAX;
  static_assert(kBuckets == 64 * 64);

  struct Node {
    uint64_t key;
    uint32_t next;
  };

  // Puts the key at `i` among those before it, which are descending.
  void Sift(size_t i) {
    uint64_t* const keys = turn_.data();
    const uint64_t key = keys[i];
    for (; i > 0 && keys[i - 1] < key; --i) keys[i] = keys[i - 1];
    keys[i] = key;
  }

  // To the next bucket with keys.
  void Turn() {
    const auto word = static_cast<size_t>(std::countr_zero(filled_words_));
    at_ = 64 * word + static_cast<size_t>(std::countr_zero(filled_[word]));
    for (uint32_t node = first_[at_]; node != kNone; node = nodes_[node].next) {
      turn_.push_back(nodes_[node].key);
    }
    first_[at_] = kNone;
    filled_[word] &= filled_[word] - 1;
    if (filled_[word] == 0) filled_words_ &= filled_words_ - 1;
    if (turn_.size() > kFew) return std::sort(turn_.begin(), turn_.end(), std::greater<>());
    for (size_t i = 1; i < turn_.size(); ++i) Sift(i);
  }

  std::vector<uint64_t> turn_;  // of the bucket whose turn it is, descending
  size_t at_ = 0;               // that bucket; earlier ones are empty
  std::vector<Node> nodes_;
  std::vector<uint32_t> first_ = std::vector<uint32_t>(kBuckets, kNone);  // by bucket
  std::array<uint64_t, 64> filled_ = {};                                  // bits by bucket
  uint64_t filled_words_ = 0;                                             // bits by word of these
  uint32_t shift_ = 0;
};

}  // namespace soapstone::planner
