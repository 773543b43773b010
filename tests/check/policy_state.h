// A state of the policy space (policy_space.h): the shards' policy objects and what is around them.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "consistency/policy.h"

namespace soapstone::check {

struct Item {
  bool is_clock = false;
  Clock clock = 0;  // update: computed at it; clock: completed clocks
};

struct State {
  std::vector<Clock> issued;                        // by worker: completed clocks
  std::vector<bool> alive;                          // runs its program
  std::vector<uint32_t> life;                       // by worker: how often it began anew
  std::vector<uint32_t> read;                       // by worker: shards read at this clock
  std::vector<uint32_t> parked;                     // by worker: shards that parked its pull
  std::vector<uint32_t> subscribed;                 // by worker: shards that send unasked
  std::vector<uint32_t> to_evict;                   // by worker: shards that must hear it is gone
  std::vector<uint32_t> to_prepare;                 // by worker: shards to install a newcomer
  std::vector<uint32_t> to_commit;                  // by worker: shards to learn its start
  std::vector<Clock> start;                         // by worker: of a newcomer, while joining
  std::vector<std::vector<std::deque<Item>>> chan;  // [worker][shard]
  std::vector<std::vector<Clock>> applied;          // [shard][worker]
  std::vector<std::vector<Clock>> computing;        // [shard][worker]: at it, with what it read
  std::vector<std::vector<uint32_t>> unseen;        // [shard][reader * P + worker]: updates
  std::vector<consistency::Policy> policy;          // by shard
  std::vector<Nanos> now;                           // by shard
  int crashes = 0, leaves = 0, joins = 0, restores = 0, duplicates = 0;  // left in the budget

  std::pair<uint64_t, uint64_t> Print() const {
    Fingerprint f;
    for (size_t w = 0; w < issued.size(); ++w) {
      f.Add(issued[w]);
      f.Add(static_cast<bool>(alive[w]));
      for (const auto* mask :
           {&life, &read, &parked, &subscribed, &to_evict, &to_prepare, &to_commit}) {
        f.Add((*mask)[w]);
      }
      f.Add(start[w]);
      for (const auto& channel : chan[w]) {
        f.Add(channel.size());
        for (const Item& item : channel) f.Add((item.clock << 1) | (item.is_clock ? 1 : 0));
      }
    }
    for (const auto& row : applied) {
      for (Clock clock : row) f.Add(clock);
    }
    for (const consistency::Policy& p : policy) p.AddTo(&f);
    if (policy[0].traits().gate == consistency::Gate::kValue) {
      for (const auto& row : unseen) {
        for (uint32_t count : row) f.Add(count);
      }
      for (const auto& row : computing) {
        for (Clock clock : row) f.Add(clock);
      }
    }
    for (int left : {crashes, leaves, joins, restores, duplicates}) f.Add(left);
    return f.value();
  }
};

}  // namespace soapstone::check
