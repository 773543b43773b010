#include "worker/engine_options.h"

#include <algorithm>

#include "base/leaf_tree.h"
#include "consistency/levels.h"
#include "wire/membership/membership.h"

namespace soapstone::worker {

wire::Address EngineOptions::HomeOf(ShardId shard) const {
  if (policy.decentralised()) return wire::Address::PeerOf(id);
  if (seat != nullptr) return wire::Address::Of(seat->shards[Index(shard)]);
  return wire::Address::Of(consistency::ShardFor(id, shard, layout->shard_count(), policy));
}

std::optional<ShardId> EngineOptions::ShardAt(wire::Address home) const {
  ShardId shard{0};
  if (seat != nullptr && !policy.decentralised()) {
    const auto at = std::find(seat->shards.begin(), seat->shards.end(), ShardId{home.index});
    if (at == seat->shards.end()) return std::nullopt;
    shard = ShardId{static_cast<uint32_t>(at - seat->shards.begin())};
  } else if (home.role == wire::Role::kShard) {  // else the peer
    shard = ShardId{home.index % layout->shard_count()};
  }
  return HomeOf(shard) == home ? std::optional(shard) : std::nullopt;
}

const SeatOutline* EngineOptions::SeatOutlineAt(Clock clock) const {
  if (clock >= total_clocks) {
    const auto batch = static_cast<uint64_t>(clock - total_clocks);
    return batch < seat->evaluation_batches ? &seat->evaluation : nullptr;
  }
  return SeatOutlineOf(team(), clock);
}

const SeatOutline* EngineOptions::SeatOutlineOf(uint32_t team, Clock clock) const {
  const auto at = seat->steps.find(SamplesOf(team, clock));
  return at == seat->steps.end() ? nullptr : &at->second;
}

uint64_t EngineOptions::BatchSamples(Clock step) const {
  const uint64_t per_epoch = (train_samples + batch - 1) / batch;
  const uint64_t index = static_cast<uint64_t>(step) % per_epoch;
  return std::min(batch, train_samples - index * batch);
}

MicroBatchRange EngineOptions::MicroBatchesOf(uint32_t team) const {
  const uint32_t each = micro_batch_count / seat->team.teams;
  return {team * each, (team + 1) * each};
}

uint64_t EngineOptions::SamplesOf(uint32_t team, Clock step) const {
  return SamplesOfLeaves(MicroBatchesOf(team), micro_batch_count, BatchSamples(step)).size();
}

size_t EngineOptions::ReplicasAt(const wire::Roster& roster, Clock clock) const {
  const bool whole = seat == nullptr;
  return ActiveWorkers(whole ? roster : wire::TeamRoster(roster, seat->team), clock).size();
}

ProgramInputs EngineOptions::Inputs() const {
  return {.layout = layout.get(),
          .ops = ops.get(),
          .ordered_reads = policy.ordered_reads(),
          .by_transfer_stages = by_transfer_stages(),
          .asks_early = asks_early(),
          .reads_ahead = seat != nullptr && seat->reads_ahead,
          .whole_nodes = skip_not_finite,
          .keys_of_micro_batches = takes_over() ? micro_batch_count : 0};
}

}  // namespace soapstone::worker
