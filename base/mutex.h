// A mutex and a condition variable with clang's thread-safety annotations, over the standard
// library's. Not absl::Mutex: the distribution's Abseil is built without ThreadSanitizer's hooks,
// so that under the `tsan` preset every access it guards is reported as a race.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/steady_clock.h"

namespace soapstone {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class Signal;
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_->Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

class Signal {
 public:
  void Notify() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

  // Waits for a Notify; may also return without one. False, at once, when the deadline has passed.
  // No wait is without an end: an hour later the caller looks again.
  bool Wait(Mutex* mutex, SteadyTime deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const absl::Duration left = std::min(deadline - SteadyNow(), absl::Hours(1));
    if (left <= absl::ZeroDuration()) return false;
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    // Upon the steady clock, as wait_until of system_clock would not be.
    condition_.wait_for(lock, absl::ToChronoNanoseconds(left));
    lock.release();
    return true;
  }

 private:
  std::condition_variable condition_;
};

}  // namespace soapstone
