// Prefetcher: makes mini-batches on a thread of its own before they are asked for, where reading
// them takes long (compressed images). Owned by a worker's device; knows nothing of workers.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "models/data/batches.h"

namespace soapstone::models {

// Invariants:
//  1. Take gives the bits that Batches::Fill would give, whatever was expected before.
//  2. At most `samples_max` samples wait to be taken or made, besides those of the part being
//  taken.
// Threading: Expect and Take are called by one thread, the same.
class Prefetcher {
 public:
  // Keeps `data`, which must not be null.
  Prefetcher(std::shared_ptr<const Dataset> data, uint64_t seed, uint64_t batch,
             uint64_t samples_max);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Says that a part will be asked for, after all that are expected already. Does not wait; where
  // there is no room it does nothing, and the part is made when it is asked for.
  void Expect(const BatchPart& part);

  // The part's samples, in place of what was in `feed`. What was expected before it at the same
  // clock or earlier, and is not taken, is forgotten once its clock has passed. REQUIRES: as
  // Batches::Fill.
  void Take(const BatchPart& part, MiniBatch* feed);

  // Parts taken that were expected, and those that were not.
  uint64_t hits() const { return hits_; }
  uint64_t misses() const { return misses_; }

 private:
  enum class Progress { kWaiting, kBeingMade, kMade };
  struct Item {
    const BatchPart part;
    Progress progress = Progress::kWaiting;
    MiniBatch feed;
  };
  using Items = std::list<Item>;

  void Work();
  // Null: the end. `feed` is memory to make the item in.
  Item* WaitForWork(MiniBatch* feed);
  Items::iterator Find(const BatchPart& part) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Items::iterator NextToMake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(Clock before) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<const Dataset> data_;
  const uint64_t samples_max_;
  uint64_t hits_ = 0;
  uint64_t misses_ = 0;

  Mutex mutex_;
  Signal wanted_;  // there is something to make, or the end
  Signal made_;
  Items items_ ABSL_GUARDED_BY(mutex_);  // in the order they are made in
  std::vector<MiniBatch> spare_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;

  Batches batches_;  // of thread_ alone
  std::thread thread_;
};

}  // namespace soapstone::models
