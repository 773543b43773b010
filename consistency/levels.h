// The tree of servers (policy `tree`): workers are in groups of consecutive ranks, and each group
// has servers of its own, its branch. To its workers a branch is the servers of a synchronous
// cluster; to the root, one worker under bounded staleness. What every process must answer alike:
// which shards there are, who talks to whom, and what each of them does of the policy.
//   groups      Q = ceil(P / G); worker w is in group w / G
//   shards      root k in [0, K); branch of group g: K (1 + g) + k, with the slices of k
// Values and formulas only.
#pragma once

#include <cstdint>

#include "consistency/traits.h"

namespace soapstone::consistency {

// Q; 0 where the policy has no tree.
uint32_t GroupCount(const PolicyTraits& traits, uint32_t workers);
// Levels of servers times their number, for one group of servers of the flat cluster: 1 + Q.
inline uint32_t ServerCopies(const PolicyTraits& traits, uint32_t workers) {
  return 1 + GroupCount(traits, workers);
}

inline uint32_t GroupOf(WorkerId worker, const PolicyTraits& traits) {
  return Index(worker) / traits.group();
}

// The shard that answers `worker` for the slices of root shard `k`: itself, or a branch's.
ShardId ShardFor(WorkerId worker, ShardId k, uint32_t root_shards, const PolicyTraits& traits);

enum class Level : uint8_t { kFlat, kRoot, kBranch };
Level LevelOf(ShardId shard, uint32_t root_shards, const PolicyTraits& traits);
// Of a branch's shard: its group, and the root shard that has the same slices.
inline uint32_t GroupOfBranch(ShardId branch, uint32_t root_shards) {
  return Index(branch) / root_shards - 1;
}
inline ShardId RootOf(ShardId shard, uint32_t root_shards) {
  return ShardId{Index(shard) % root_shards};
}
inline ShardId BranchOf(ShardId root, uint32_t group, uint32_t root_shards) {
  return ShardId{root_shards * (1 + group) + Index(root)};
}

// What a shard of that level does, as the traits of a flat policy: the root is ssp among groups,
// a branch a round of all its members, whose values come from the root.
PolicyTraits TraitsOfLevel(const PolicyTraits& traits, Level level);

}  // namespace soapstone::consistency
