// Published: the newest of a value that one thread makes and others look at.
#pragma once

#include <memory>
#include <utility>

#include "base/mutex.h"

namespace soapstone::status {

// Thread-safe. Neither side waits for the other longer than a pointer takes to be copied.
template <class T>
class Published {
 public:
  void Set(T value) {
    auto next = std::make_shared<const T>(std::move(value));
    MutexLock lock(&mutex_);
    newest_.swap(next);  // what it was goes after the lock
  }
  // Null: nothing has been published yet.
  std::shared_ptr<const T> Get() const {
    MutexLock lock(&mutex_);
    return newest_;
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const T> newest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace soapstone::status
