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

// The leaves of each rank at `clock`, members or not: LeavesOfRank, or with shares n in force
// [n_0 + .. + n_{r-1}, n_0 + .. + n_r). They partition [0, M).
std::vector<MicroBatchRange> LeafRanges(const Roster& roster, Clock clock, uint32_t leaf_count);

// The micro-batches a worker computes at `clock`. Every leaf has exactly one owner under a roster:
//   owner(j) = r                       if rank r = the rank whose LeafRanges entry holds j is
//   active
//            = active[i]               otherwise: adopted, where j is in the i-th of |active| equal
//                                      parts of all such leaves, ascending: neighbours stay
//                                      together, and can be summed before they are pushed
struct OwnedLeaves {
  MicroBatchRange own;            // of its own rank
  std::vector<uint32_t> adopted;  // of ranks that are not active; ascending
};
OwnedLeaves LeavesOwned(const Roster& roster, WorkerId worker, Clock clock, uint32_t leaf_count);

inline ServerId ServerOf(ShardId shard, uint32_t shards_per_server) {
  return ServerId{Index(shard) / shards_per_server};
}

}  // namespace soapstone::wire
