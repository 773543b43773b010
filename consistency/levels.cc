#include "consistency/levels.h"

namespace soapstone::consistency {

uint32_t GroupCount(const PolicyTraits& traits, uint32_t workers) {
  return traits.tree() ? (workers + traits.group() - 1) / traits.group() : 0;
}

ShardId ShardFor(WorkerId worker, ShardId k, uint32_t root_shards, const PolicyTraits& traits) {
  return traits.tree() ? BranchOf(k, GroupOf(worker, traits), root_shards) : k;
}

Level LevelOf(ShardId shard, uint32_t root_shards, const PolicyTraits& traits) {
  if (!traits.tree()) return Level::kFlat;
  return Index(shard) < root_shards ? Level::kRoot : Level::kBranch;
}

PolicyTraits TraitsOfLevel(const PolicyTraits& traits, Level level) {
  PolicyTraits own = traits;
  if (level == Level::kRoot) own.fixed_tree = false;
  if (level == Level::kBranch) {
    own.gate = RoundTraits{};
    own.guarantee = {.read_lag_max = 0, .clock_gap_max = 1, .snapshot_reads = true};
  }
  return own;
}

}  // namespace soapstone::consistency
