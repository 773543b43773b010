#include "cluster/actor_options.h"

namespace soapstone::cluster {

worker::EngineOptions EngineOptionsOf(const TrainingJob& job, WorkerId worker) {
  return {.id = worker,
          .layout = job.worker_layout,
          .ops = job.ops,
          .policy = job.specs.policy,
          .micro_batch_count = job.micro_batches,
          .total_clocks = job.total_clocks,
          .train_samples = job.train_samples,
          .batch = job.batch,
          .skip_not_finite = job.skip_not_finite,
          .patience_ns = job.patience_ns};
}

worker::ExecutorOptions ExecutorOptionsOf(const TrainingJob& job, WorkerId worker) {
  return {.graph = *job.graph,
          .data = job.data,
          .layout = job.worker_layout,
          .seed = job.seed,
          .batch = job.batch,
          .optimizer = job.specs.optimizer,
          .local_momentum = job.specs.policy.local_momentum(),
          .schedule = job.specs.schedule,
          .total_clocks = job.total_clocks,
          .now = [] { return Nanos{0}; },
          .skip_not_finite = job.skip_not_finite,
          .spoils = [stragglers = job.specs.stragglers,
                     worker](Clock clock) { return stragglers.Spoils(worker, clock); }};
}

worker::SparseExecutorOptions SparseExecutorOptionsOf(const TrainingJob& job) {
  return {.model = job.tables,
          .layout = job.worker_layout,
          .seed = job.seed,
          .batch = job.batch,
          .now = [] { return Nanos{0}; },
          .skip_not_finite = job.skip_not_finite};
}

server::ShardOptions ShardOptionsOf(const TrainingJob& job, ShardId shard) {
  return {.id = shard,
          .layout = job.layout,
          .policy = job.specs.policy,
          .micro_batch_count = job.micro_batches,
          .final_clock = job.specs.policy.Rounds(job.total_clocks)};
}

server::TensorStoreOptions StoreOptionsOf(const TrainingJob& job, ShardId shard) {
  return {.layout = job.layout,
          .shard = shard,
          .optimizer = job.specs.optimizer,
          .schedule = job.specs.schedule,
          .total_clocks = job.total_clocks,
          .seed = job.seed,
          .given = job.given,
          .rule = job.specs.policy.store,
          .checks = job.strict,
          .fault = job.store_fault,
          .fixed_tree = job.specs.policy.fixed_tree};
}

server::PeerOptions PeerOptionsOf(const TrainingJob& job, WorkerId worker) {
  return {.id = worker,
          .worker_layout = job.worker_layout,
          .shard_layout = job.layout,
          .policy = job.specs.policy,
          .total_clocks = job.total_clocks,
          .checks = job.strict};
}

server::PeerVectorsOptions PeerVectorsOptionsOf(const TrainingJob& job) {
  return {.layout = job.layout,
          .optimizer = job.specs.optimizer,
          .schedule = job.specs.schedule,
          .total_clocks = job.total_clocks,
          .seed = job.seed,
          .given = job.given,
          .fault = job.store_fault};
}

}  // namespace soapstone::cluster
