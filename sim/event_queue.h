// EventQueue: what happens next in virtual time. Events leave in the order of (time, sequence), so
// that a run is a function of its options. Events due now, which are most where the network is
// free, pass through a ring and not through the heap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace soapstone::sim {

// T: movable.
template <typename T>
class EventQueue {
 public:
  // REQUIRES: at >= now().
  void Push(Nanos at, T event) {
    if (at == now_) {
      due_.push_back(std::move(event));
      return;
    }
    uint32_t slot = static_cast<uint32_t>(events_.size());
    if (free_.empty()) {
      events_.push_back(std::move(event));
    } else {
      slot = free_.back();
      free_.pop_back();
      events_[slot] = std::move(event);
    }
    heap_.push_back({at, next_sequence_++, slot});
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }

  bool empty() const { return due_.empty() && heap_.empty(); }
  // Time of the event that Pop returns. REQUIRES: not empty.
  Nanos next_at() const { return due_.empty() ? heap_.front().at : now_; }
  Nanos now() const { return now_; }

  // Moves now() to the event's time. What waited in the heap for this time was pushed before time
  // came here, so it goes before the ring. REQUIRES: not empty.
  T Pop() {
    if (!due_.empty() && (heap_.empty() || heap_.front().at > now_)) {
      T event = std::move(due_.front());
      due_.pop_front();
      return event;
    }
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    const Entry entry = heap_.back();
    heap_.pop_back();
    now_ = entry.at;
    free_.push_back(entry.slot);
    return std::move(events_[entry.slot]);
  }

 private:
  struct Entry {
    Nanos at = 0;
    uint64_t sequence = 0;
    uint32_t slot = 0;
  };
  static bool Later(const Entry& a, const Entry& b) {
    return a.at != b.at ? a.at > b.at : a.sequence > b.sequence;
  }

  Nanos now_ = 0;
  uint64_t next_sequence_ = 0;
  std::vector<Entry> heap_;
  std::vector<T> events_;  // by slot
  std::vector<uint32_t> free_;
  std::deque<T> due_;
};

}  // namespace soapstone::sim
