// BoundedInbox: the queue between threads. Many writers, one reader, a maximum, and deadlines.
// Used by the shells; actors never see it.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/memory/recycling.h"
#include "base/mutex.h"
#include "base/steady_clock.h"

namespace soapstone {

template <typename T>
class BoundedInbox {
 public:
  using Items = std::deque<T, RecyclingAllocator<T>>;
  explicit BoundedInbox(size_t items_max) : items_max_(items_max) {}

  // Appends. Returns false, leaving the queue as it was, when full or closed.
  bool TryPut(T item) ABSL_LOCKS_EXCLUDED(mutex_) {
    return Put(std::move(item), SteadyTime::InfinitePast());
  }

  // Appends, waiting for room until the deadline. Returns false when it passed or when closed.
  bool Put(T item, SteadyTime deadline) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      MutexLock lock(&mutex_);
      while (!closed_ && items_.size() >= items_max_) {
        if (!room_.Wait(&mutex_, deadline)) break;
      }
      if (closed_ || items_.size() >= items_max_) return false;
      items_.push_back(std::move(item));
    }
    arrived_.Notify();
    return true;
  }

  // Takes the oldest item, waiting until the deadline. Empty when it passed, or closed and empty.
  std::optional<T> Take(SteadyTime deadline) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::optional<T> item;
    {
      MutexLock lock(&mutex_);
      while (!closed_ && items_.empty()) {
        if (!arrived_.Wait(&mutex_, deadline)) break;
      }
      if (items_.empty()) return std::nullopt;
      item.emplace(std::move(items_.front()));
      items_.pop_front();
    }
    room_.Notify();
    return item;
  }

  // Takes all there are, oldest first, waiting for one until the deadline: into `items`, which is
  // empty before. False when there were none.
  bool TakeAll(Items* items, SteadyTime deadline) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      MutexLock lock(&mutex_);
      while (!closed_ && items_.empty()) {
        if (!arrived_.Wait(&mutex_, deadline)) break;
      }
      if (items_.empty()) return false;
      items->swap(items_);
    }
    room_.NotifyAll();
    return true;
  }

  // No more items are accepted; what is queued can still be taken; waiters wake.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      MutexLock lock(&mutex_);
      closed_ = true;
    }
    arrived_.NotifyAll();
    room_.NotifyAll();
  }

  bool closed() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return closed_;
  }
  size_t size() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return items_.size();
  }

 private:
  const size_t items_max_;
  mutable Mutex mutex_;
  Signal arrived_;
  Signal room_;
  Items items_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace soapstone
