// WholePushes: which push is the last of those that the seats of a team make one of, at a shard
// that several of them hold. Who looks at a shard from outside counts a team's push once: the
// checkers, and virtual time, where what it costs to apply begins with it. A value.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "wire/membership/teams.h"
#include "wire/message.h"

namespace soapstone::sim {

class WholePushes {
 public:
  // holders: by shard, how many seats of a team hold it; empty: one each.
  WholePushes(wire::TeamShape shape, std::vector<uint32_t> holders)
      : shape_(shape), holders_(std::move(holders)) {}

  uint32_t HoldersOf(ShardId shard) const { return holders_.empty() ? 1 : holders_[Index(shard)]; }

  // With this push all holders of the shard have sent theirs. Each comes once.
  bool Completes(ShardId shard, const wire::Message& push) {
    const uint32_t holders = HoldersOf(shard);
    if (holders == 1) return true;
    const Key key = {shard, wire::TeamOf(push.worker, shape_), push.clock,
                     wire::As<wire::Push>(push).bucket};
    uint32_t& here = here_[key];
    if (++here < holders) return false;
    here_.erase(key);
    return true;
  }

 private:
  using Key = std::tuple<ShardId, WorkerId, Clock, BucketId>;
  wire::TeamShape shape_;
  std::vector<uint32_t> holders_;
  std::map<Key, uint32_t> here_;
};

}  // namespace soapstone::sim
