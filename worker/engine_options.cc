#include "worker/engine_options.h"

#include <algorithm>

#include "consistency/levels.h"

namespace soapstone::worker {

wire::Address EngineOptions::HomeOf(ShardId shard) const {
  if (policy.decentralised()) return wire::Address::PeerOf(id);
  return wire::Address::Of(consistency::ShardFor(id, shard, layout->shard_count(), policy));
}

uint64_t EngineOptions::BatchSamples(Clock step) const {
  const uint64_t per_epoch = (train_samples + batch - 1) / batch;
  const uint64_t index = static_cast<uint64_t>(step) % per_epoch;
  return std::min(batch, train_samples - index * batch);
}

ProgramInputs EngineOptions::Inputs() const {
  return {.layout = layout.get(),
          .ops = ops.get(),
          .ordered_reads = policy.ordered_reads(),
          .by_transfer_stages = by_transfer_stages(),
          .whole_nodes = skip_not_finite,
          .keys_of_micro_batches = policy.takes_over() ? micro_batch_count : 0};
}

}  // namespace soapstone::worker
