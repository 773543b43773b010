#include "experiment/cosim/job_parts.h"

namespace soapstone::experiment {

std::shared_ptr<const wire::Layout> WorkerLayoutOf(const CosimJob& job) {
  if (!job.policy.decentralised()) return job.layout;
  return std::make_shared<const wire::Layout>(wire::Layout::Whole(job.layout->params()));
}

worker::ExecutorOptions ExecutorOptionsOf(const CosimJob& job, WorkerId worker) {
  return {.graph = job.graph,
          .data = job.data,
          .layout = WorkerLayoutOf(job),
          .seed = job.seed,
          .batch = job.batch,
          .optimizer = job.optimizer,
          .local_momentum = job.policy.local_momentum(),
          .schedule = job.schedule,
          .total_clocks = job.total_clocks,
          .now = [] { return Nanos{0}; },
          .skip_not_finite = job.skip_not_finite,
          .spoils = [faults = job.faults,
                     worker](Clock clock) { return faults.Spoils(worker, clock); }};
}

server::TensorStoreOptions StoreOptionsOf(const CosimJob& job, ShardId shard) {
  return {.layout = job.layout,
          .shard = shard,
          .optimizer = job.optimizer,
          .schedule = job.schedule,
          .total_clocks = job.total_clocks,
          .seed = job.seed,
          .given = job.given,
          .rule = job.policy.store,
          .fixed_tree = job.policy.fixed_tree};
}

std::shared_ptr<server::PeerVectors> MakePeerVectors(const CosimJob& job) {
  return server::MakePeerVectors({.layout = job.layout,
                                  .optimizer = job.optimizer,
                                  .schedule = job.schedule,
                                  .total_clocks = job.total_clocks,
                                  .seed = job.seed,
                                  .given = job.given});
}

sim::Training TrainingOf(const CosimJob& job) {
  return {
      .layout = job.layout,
      .ops = std::make_shared<const std::vector<worker::OpOutline>>(worker::OutlineOf(job.graph)),
      .train_samples = job.data->train.size(),
      .batch = job.batch,
      .skip_not_finite = job.skip_not_finite};
}

}  // namespace soapstone::experiment
