// BoundedInbox: the queue between threads. Many writers, one reader, a maximum, and deadlines.
// Used by the shells; actors never see it.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace soapstone {

template <typename T>
class BoundedInbox {
 public:
  explicit BoundedInbox(size_t items_max) : items_max_(items_max) {}

  // Appends. Returns false, leaving the queue as it was, when full or closed.
  bool TryPut(T item) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (closed_ || items_.size() >= items_max_) return false;
    items_.push_back(std::move(item));
    return true;
  }

  // Appends, waiting for room until the deadline. Returns false when it passed or when closed.
  bool Put(T item, absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithDeadline(absl::Condition(this, &BoundedInbox::HasRoomOrClosed), deadline);
    if (closed_ || items_.size() >= items_max_) return false;
    items_.push_back(std::move(item));
    return true;
  }

  // Takes the oldest item, waiting until the deadline. Empty when it passed, or closed and empty.
  std::optional<T> Take(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithDeadline(absl::Condition(this, &BoundedInbox::HasItemOrClosed), deadline);
    if (items_.empty()) return std::nullopt;
    T item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

  // No more items are accepted; what is queued can still be taken; waiters wake.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }

  bool closed() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return closed_;
  }
  size_t size() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return items_.size();
  }

 private:
  bool HasRoomOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ || items_.size() < items_max_;
  }
  bool HasItemOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ || !items_.empty();
  }

  const size_t items_max_;
  mutable absl::Mutex mutex_;
  std::deque<T> items_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace soapstone
