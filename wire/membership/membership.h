// Questions about a Roster that workers and shards must answer alike.
#pragma once

#include <optional>
#include <vector>

#include "base/ids.h"
#include "wire/message.h"

namespace soapstone::wire {

// The member of that rank; null when there is none. Valid as long as the roster.
const Member* FindMember(const Roster& roster, WorkerId worker);

// Members that take part at `clock`, ascending.
std::vector<WorkerId> ActiveWorkers(const Roster& roster, Clock clock);

// The shares in force at `clock`; null before the first. Valid as long as the roster.
const Shares* SharesAt(const Roster& roster, Clock clock);

// The micro-batches of each rank at `clock`, members or not: LeavesOfRank, or with shares n in
// force [n_0 + .. + n_{r-1}, n_0 + .. + n_r). They partition [0, M).
std::vector<MicroBatchRange> MicroBatchRanges(const Roster& roster, Clock clock,
                                              uint32_t micro_batch_count);

// The micro-batches a worker computes at `clock`. Every micro-batch has exactly one owner under a
// roster:
//   owner(j) = r           if r, the rank whose MicroBatchRanges entry holds j, is active
//            = active[i]   otherwise: taken over, where j is in the i-th of |active| equal parts of
//                          all such micro-batches, ascending: neighbours stay together, and can be
//                          summed before they are pushed
struct OwnedMicroBatches {
  MicroBatchRange own;               // of its own rank
  std::vector<uint32_t> taken_over;  // of ranks that are not active; ascending
};
OwnedMicroBatches MicroBatchesOwned(const Roster& roster, WorkerId worker, Clock clock,
                                    uint32_t micro_batch_count);

// Where shard k lives in a job that keeps each once.
inline ServerId ServerOf(ShardId shard, uint32_t shards_per_server) {
  return ServerId{Index(shard) / shards_per_server};
}

// The server that takes the shard's messages, as this roster has it.
inline ServerId HeadOf(const Roster& roster, ShardId shard) {
  if (Index(shard) >= roster.chains.size()) return ServerOf(shard, roster.shards_per_server);
  return roster.chains[Index(shard)].links.front().server;
}

}  // namespace soapstone::wire
