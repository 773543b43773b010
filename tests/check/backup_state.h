// A state of the space of `backup` (backup_space.h): the shards' policy objects and what is around
// them.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "consistency/policy.h"

namespace soapstone::check {

struct BackupItem {
  bool is_clock = false;
  Clock clock = 0;
  bool is_pull = false;  // asked over a connection that was broken then
};

struct BackupShardItem {
  Clock clock = 0;
  std::vector<WorkerId> workers;  // held: one; chosen: the set
};

struct BackupState {
  std::vector<Clock> issued;  // by worker: clock of its next update
  std::vector<bool> alive;
  std::vector<uint32_t> life, parked, to_evict, to_prepare, to_commit;  // masks: of shards
  std::vector<Clock> start;                                             // while joining
  // Of connections, as policy_state.h has them; `answered` has the version.
  std::vector<uint32_t> down, lost;
  std::vector<std::vector<Clock>> answered;
  std::vector<bool> out;
  uint32_t leader_down = 0;              // mask: shards whose connection with 0 is broken
  std::vector<std::vector<Clock>> seen;  // [worker][shard]: version read, or kNoClock
  std::vector<std::vector<std::deque<BackupItem>>> chan;        // [worker][shard]
  std::vector<std::deque<BackupShardItem>> to_lead, from_lead;  // by shard
  std::vector<std::vector<uint32_t>> rounds;                    // [shard]: workers taken, by round
  std::vector<Clock> since;  // shard 0: member from this round on
  std::vector<consistency::Policy> policy;
  int crashes = 0, leaves = 0, joins = 0, restores = 0, duplicates = 0, breaks = 0, losses = 0;

  std::pair<uint64_t, uint64_t> Print() const {
    Fingerprint f;
    for (size_t w = 0; w < issued.size(); ++w) {
      f.Add(issued[w]);
      f.Add(static_cast<bool>(alive[w]));
      for (const auto* mask : {&life, &parked, &down, &lost, &to_evict, &to_prepare, &to_commit}) {
        f.Add((*mask)[w]);
      }
      f.Add(start[w]);
      f.Add(since[w]);
      f.Add(static_cast<bool>(out[w]));
      for (const Clock version : seen[w]) f.Add(version);
      for (const Clock version : answered[w]) f.Add(version);
      for (const auto& channel : chan[w]) {
        f.Add(channel.size());
        for (const BackupItem& item : channel) {
          f.Add((item.clock << 2) | (item.is_pull ? 2 : 0) | (item.is_clock ? 1 : 0));
        }
      }
    }
    for (const auto* channels : {&to_lead, &from_lead}) {
      for (const auto& channel : *channels) {
        f.Add(channel.size());
        for (const BackupShardItem& item : channel) {
          f.Add(item.clock);
          for (const WorkerId worker : item.workers) f.Add(worker);
        }
      }
    }
    for (const auto& shard : rounds) {
      f.Add(shard.size());
      for (const uint32_t taken : shard) f.Add(taken);
    }
    for (const consistency::Policy& p : policy) p.AddTo(&f);
    for (const int left : {crashes, leaves, joins, restores, duplicates, breaks, losses})
      f.Add(left);
    f.Add(leader_down);
    return f.value();
  }
};

}  // namespace soapstone::check
