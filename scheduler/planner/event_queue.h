// The simulator's queue of tasks that may begin: 64-bit keys, smallest first, in a heap of four
// children a node. Unused places hold the largest key, so that the least of four children is found
// without a branch. The least key stays in place until the next push takes its place: a pop
// followed by a push moves through the heap once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace soapstone::planner {

class EventQueue {
 public:
  EventQueue() { Grow(64); }

  void Clear() {
    std::fill(keys_.begin(), keys_.begin() + static_cast<ptrdiff_t>(kShift + size_), kNone);
    size_ = 0;
    hole_ = false;
  }
  bool empty() const { return size_ == (hole_ ? 1 : 0); }

  void Push(uint64_t key) {
    if (hole_) {
      hole_ = false;
      SiftDown(key);
      return;
    }
    if (size_ + kShift + 4 >= keys_.size()) Grow(2 * keys_.size());
    uint64_t* const keys = keys_.data() + kShift;
    size_t at = size_++;
    while (at > 0) {
      const size_t parent = (at - 1) / 4;
      if (keys[parent] <= key) break;
      keys[at] = keys[parent];
      at = parent;
    }
    keys[at] = key;
  }

  // REQUIRES !empty()
  uint64_t Pop() {
    if (hole_) {
      const uint64_t last = keys_[kShift + --size_];
      keys_[kShift + size_] = kNone;
      SiftDown(last);
    }
    hole_ = true;
    return keys_[kShift];
  }

 private:
  static constexpr uint64_t kNone = UINT64_MAX;
  static constexpr size_t kShift = 3;  // children of a node begin at a multiple of four

  void Grow(size_t places) { keys_.resize(places, kNone); }

  // From the root, which is free.
  void SiftDown(uint64_t key) {
    uint64_t* const keys = keys_.data() + kShift;
    size_t at = 0;
    while (true) {
      const size_t first = 4 * at + 1;
      if (first >= size_) break;
      const uint64_t a = keys[first], b = keys[first + 1];
      const uint64_t c = keys[first + 2], d = keys[first + 3];
      const size_t ab = first + (b < a ? 1 : 0), cd = first + (d < c ? 3 : 2);
      const uint64_t low_ab = b < a ? b : a, low_cd = d < c ? d : c;
      const size_t least = low_cd < low_ab ? cd : ab;
      const uint64_t low = low_cd < low_ab ? low_cd : low_ab;
      if (low >= key) break;
      keys[at] = low;
      at = least;
    }
    keys[at] = key;
  }

  std::vector<uint64_t> keys_;
  size_t size_ = 0;    // with the hole
  bool hole_ = false;  // the first key is popped
};

}  // namespace soapstone::planner
