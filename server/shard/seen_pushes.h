// SeenPushes: the pushes that a shard has had of each worker's present clock, by which it knows a
// repeated one, and a clock that has overtaken some of them. The shard alone calls it, with
// messages that it has found well-formed. A value: copied with its shard, keeps no pointers.
//
// Invariants
//  1. Of one worker, clock, bucket and micro-batches Remember says kNew once. What is of an earlier
//  clock
//     than the worker's newest push counts as seen before.
//  2. It remembers the pushes of one clock a worker, and of those at most `pushes_max`; one more is
//     kFull, and not remembered.
//  3. A clock counts when as many pushes of it are here as it says; till then it waits, one clock a
//     worker.
//  4. What takes part in the fingerprint is the set of pushes, in whatever order they came.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/fingerprint.h"
#include "base/ids.h"
#include "base/memory/state_image.h"
#include "wire/message.h"
#include "wire/message_image.h"

namespace soapstone::server {

class SeenPushes {
 public:
  explicit SeenPushes(uint64_t pushes_max) : pushes_max_(pushes_max) {}

  enum class Memory : uint8_t { kNew, kSeenBefore, kFull };
  Memory Remember(const wire::Message& push);
  // The greatest clock of any push that was new, whosever; kNoClock: none was. No behaviour depends
  // on it, and no fingerprint has it.
  Clock newest() const { return newest_; }

  // Whether all pushes that the clock message stands for are here. If not it is kept.
  bool Covers(const wire::Message& clock);
  // The clock of the worker that waits, if one does. It waits no more.
  std::optional<wire::Message> TakeWaiting(WorkerId worker);

  // The worker's rank is vacant, or another process's.
  void Forget(WorkerId worker);
  void AddTo(Fingerprint* f) const;
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.newest_, self.workers_);
  }

 private:
  struct Key {
    BucketId bucket{};
    MicroBatchRange micro_batches;
    friend auto operator<=>(const Key&, const Key&) = default;
    template <class Self, class Visitor>
    static void Visit(Self& self, Visitor&& visit) {
      visit(self.bucket, self.micro_batches);
    }
    template <typename H>
    friend H AbslHashValue(H state, const Key& key) {
      return H::combine(std::move(state), key.bucket, key.micro_batches.begin,
                        key.micro_batches.end);
    }
  };
  struct OfWorker {
    Clock clock = kNoClock;
    absl::flat_hash_set<Key> pushes;       // of `clock`; never gone through
    uint64_t digest = 0;                   // of that set, in whatever order it came
    std::optional<wire::Message> waiting;  // a clock that came before its pushes
    template <class Self, class Visitor>
    static void Visit(Self& self, Visitor&& visit) {
      visit(self.clock, self.pushes, self.digest, self.waiting);
    }
  };
  OfWorker& Of(WorkerId worker);

  uint64_t pushes_max_;
  Clock newest_ = kNoClock;
  std::vector<OfWorker> workers_;  // by index, up to the last that was heard
};

}  // namespace soapstone::server
