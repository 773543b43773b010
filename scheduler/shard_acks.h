// ShardAcks: which roster each shard has installed, and at which frontier. A value of the
// coordinator's; knows no message.
#pragma once

#include <algorithm>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"

namespace soapstone::scheduler {

// Invariant: a shard's recorded epoch never shrinks.
class ShardAcks {
 public:
  explicit ShardAcks(uint32_t shards) : latest_(shards) {}

  // `shard` has installed the roster of `epoch`, its frontier then being `frontier`. An epoch older
  // than the recorded one changes nothing. REQUIRES: shard < the count.
  void Record(ShardId shard, Epoch epoch, Clock frontier) {
    Ack& ack = latest_[Index(shard)];
    if (epoch >= ack.epoch) ack = {epoch, frontier};
  }

  // True when every shard has installed the roster of `epoch`, or of a later one.
  bool AllReached(Epoch epoch) const { return Behind(epoch).empty(); }

  // Shards that have not, ascending.
  std::vector<ShardId> Behind(Epoch epoch) const {
    std::vector<ShardId> behind;
    for (uint32_t k = 0; k < latest_.size(); ++k) {
      if (latest_[k].epoch < epoch) behind.push_back(ShardId{k});
    }
    return behind;
  }

  // max over shards k of f_k, the frontier each reported last.
  Clock MaxFrontier() const {
    Clock frontier = 0;
    for (const Ack& ack : latest_) frontier = std::max(frontier, ack.frontier);
    return frontier;
  }

  friend bool operator==(const ShardAcks&, const ShardAcks&) = default;
  void AddTo(Fingerprint* f) const {
    for (const Ack& ack : latest_) {
      f->Add(ack.epoch);
      f->Add(ack.frontier);
    }
  }

 private:
  struct Ack {
    Epoch epoch = 0;  // 0: none yet
    Clock frontier = 0;
    friend bool operator==(const Ack&, const Ack&) = default;
  };
  std::vector<Ack> latest_;  // by shard
};

}  // namespace soapstone::scheduler
