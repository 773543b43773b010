// Snapshots of a training run: the parameters as they were each time that the updates of so many
// more samples were in the stores. What a learning curve is evaluated on, in real runs and in
// co-simulation alike. Values without a clock; times are handed in.
//
// Shards do not wait for one another, so each takes its own snapshot when its own store gets there.
// A cut puts them together: cut k holds, of each shard, the first snapshot with k steps or more,
// and its time is that of the last of them.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/memory/buffer.h"
#include "server/store/store.h"

namespace soapstone::server {

struct Snapshot {
  Nanos at = 0;
  uint64_t steps = 0;  // floor(samples in the store / samples of a step)
  Buffers slices;      // as Store::Read: shared with replies, not copied for this
  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

// Takes one shard's.
class SnapshotTaker {
 public:
  // `step`: samples from one to the next; at least 1.
  explicit SnapshotTaker(uint64_t step) : step_(step) {}

  // To be called when updates may have been applied. Empty: nothing is due.
  std::optional<Snapshot> Look(Nanos now, const Store& store);
  // The store as it is, at the time when its latest update was seen.
  Snapshot Last(const Store& store) const;

 private:
  uint64_t step_;
  uint64_t steps_ = 0;    // of the latest snapshot
  uint64_t samples_ = 0;  // seen in the store
  Nanos changed_at_ = 0;
};

// All shards' parameters at one point of the training.
struct Cut {
  Nanos at = 0;
  std::vector<Buffers> slices;  // by shard
};

// Puts snapshots together.
class CutAssembler {
 public:
  explicit CutAssembler(uint32_t shards) : waiting_(shards) {}

  // A shard's next: in the order in which it took them.
  void Add(ShardId shard, Snapshot snapshot) {
    waiting_[Index(shard)].push_back(std::move(snapshot));
  }
  // The next cut, once every shard has come so far.
  std::optional<Cut> Next();

 private:
  std::vector<std::deque<Snapshot>> waiting_;  // by shard; the first is in the latest cut
  uint64_t steps_ = 0;                         // of the next cut: at least
};

}  // namespace soapstone::server
