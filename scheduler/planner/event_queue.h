// The simulator's queue of tasks that are ready: 64-bit keys, smallest first, in a heap of four
// children a node. The least key stays in place until the next push takes its place, so that
// a pop followed by a push moves through the heap once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace soapstone::planner {

class EventQueue {
 public:
  void Clear() {
    size_ = 0;
    hole_ = false;
  }
  bool empty() const { return size_ - (hole_ ? 1 : 0) == 0; }

  void Push(uint64_t key) {
    if (hole_) {
      hole_ = false;
      SiftDown(key);
      return;
    }
    if (size_ == keys_.size()) keys_.resize(std::max<size_t>(64, 2 * size_));
    size_t at = size_++;
    while (at > 0) {
      const size_t parent = (at - 1) / 4;
      if (keys_[parent] <= key) break;
      keys_[at] = keys_[parent];
      at = parent;
    }
    keys_[at] = key;
  }

  // REQUIRES !empty()
  uint64_t Pop() {
    if (hole_) {
      hole_ = false;
      --size_;
      SiftDown(keys_[size_]);
    }
    hole_ = true;
    return keys_[0];
  }

 private:
  // From the root, which is free.
  void SiftDown(uint64_t key) {
    size_t at = 0;
    while (true) {
      const size_t first = 4 * at + 1;
      if (first >= size_) break;
      size_t least = first;
      const size_t end = std::min(first + 4, size_);
      for (size_t i = first + 1; i < end; ++i) {
        if (keys_[i] < keys_[least]) least = i;
      }
      if (keys_[least] >= key) break;
      keys_[at] = keys_[least];
      at = least;
    }
    keys_[at] = key;
  }

  std::vector<uint64_t> keys_;
  size_t size_ = 0;    // with the hole
  bool hole_ = false;  // keys_[0] is popped
};

}  // namespace soapstone::planner
