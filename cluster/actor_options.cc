#include "cluster/actor_options.h"

#include <variant>

#include "wire/membership/teams.h"

namespace soapstone::cluster {
namespace {

// Of the shards whose parameters the worker's seat holds.
std::shared_ptr<const wire::Layout> SeatLayoutOf(const TrainingJob& job, uint32_t seat) {
  return std::make_shared<const wire::Layout>(
      job.layout->Only(ShardsOf(*job.team, seat, *job.layout)));
}

// What it sees of who keeps them: those shards, or its own peer.
std::shared_ptr<const wire::Layout> WorkerLayoutOf(const TrainingJob& job, uint32_t seat) {
  std::shared_ptr<const wire::Layout> layout = SeatLayoutOf(job, seat);
  if (!job.specs.policy.decentralised() || layout->params().empty()) return layout;
  return std::make_shared<const wire::Layout>(wire::Layout::Whole(layout->params()));
}

std::shared_ptr<const models::Section> SectionOf(const planner::TeamProgram& program,
                                                 uint32_t seat) {
  return std::make_shared<const models::Section>(program.seats[seat].section);
}

}  // namespace

worker::EngineOptions EngineOptionsOf(const TrainingJob& job, WorkerId worker) {
  worker::EngineOptions options = {.id = worker,
                                   .layout = job.worker_layout,
                                   .ops = job.ops,
                                   .policy = job.specs.policy,
                                   .micro_batch_count = job.micro_batches,
                                   .total_clocks = job.total_clocks,
                                   .train_samples = job.train_samples,
                                   .batch = job.batch,
                                   .skip_not_finite = job.skip_not_finite,
                                   .patience_ns = job.patience_ns,
                                   .says_again = job.replicas > 1};
  if (job.team == nullptr) return options;
  const uint32_t seat = wire::SeatOf(worker, job.team->shape);
  options.layout = WorkerLayoutOf(job, seat);
  options.seat = std::make_shared<const worker::SeatOptions>(
      SeatOptionsOf(*job.team, seat, *job.layout, *options.layout));
  return options;
}

worker::SeatExecutorOptions SeatExecutorOptionsOf(const TrainingJob& job, WorkerId worker) {
  const uint32_t seat = wire::SeatOf(worker, job.team->shape);
  worker::SeatExecutorOptions options = {
      .evaluation_batch = job.team->evaluation_batch,
      .data = job.data,
      .layout = WorkerLayoutOf(job, seat),
      .seed = job.seed,
      .batch = job.batch,
      .micro_batches = job.micro_batches / job.team->shape.teams,
      .team = Index(wire::TeamOf(worker, job.team->shape)),
      .teams = job.team->shape.teams,
      .total_clocks = job.total_clocks,
      .lead = job.team->plan.LeadOf(seat),
      .reads_ahead = job.team->plan.ReadsAhead(),
      .takes_over = job.specs.policy.takes_over() && job.team->shape.teams > 1,
      .now = [] { return Nanos{0}; },
      .spoils = [stragglers = job.specs.stragglers,
                 worker](Clock clock) { return stragglers.Spoils(worker, clock); }};
  const consistency::PolicyTraits& policy = job.specs.policy;
  if (policy.keeps_parameters()) {
    options.local = {
        .optimizer = job.specs.optimizer,
        .momentum = policy.local_momentum(),
        .schedule = job.specs.schedule,
        .keeps_start = std::holds_alternative<consistency::DeltaExchange>(policy.exchange)};
  }
  for (const auto& [samples, program] : job.team->plan.steps) {
    options.sections[static_cast<uint64_t>(samples)] = SectionOf(program, seat);
  }
  options.evaluation = options.sections.at(options.evaluation_batch);
  return options;
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
  server::ShardOptions options = {.id = shard,
                                  .layout = job.layout,
                                  .policy = job.specs.policy,
                                  .micro_batch_count = job.micro_batches,
                                  .final_clock = job.specs.policy.Rounds(job.total_clocks)};
  if (job.team == nullptr) return options;
  options.team = job.team->shape;
  options.holders = HoldersOf(*job.team, shard);
  options.own_lag = OwnLagOf(*job.team, shard);
  return options;
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

bool HasPeer(const TrainingJob& job, WorkerId worker) {
  if (!job.specs.policy.decentralised()) return false;
  if (job.team == nullptr) return true;
  return !ShardsOf(*job.team, wire::SeatOf(worker, job.team->shape), *job.layout).empty();
}

server::PeerOptions PeerOptionsOf(const TrainingJob& job, WorkerId worker) {
  server::PeerOptions options = {.id = worker,
                                 .worker_layout = job.worker_layout,
                                 .shard_layout = job.layout,
                                 .policy = job.specs.policy,
                                 .total_clocks = job.total_clocks,
                                 .stretch_elements = job.stretch_elements,
                                 .checks = job.strict};
  if (job.team == nullptr) return options;
  const uint32_t seat = wire::SeatOf(worker, job.team->shape);
  options.worker_layout = WorkerLayoutOf(job, seat);
  options.shard_layout = SeatLayoutOf(job, seat);
  options.team = job.team->shape;
  options.shards = ShardsOf(*job.team, seat, *job.layout);
  return options;
}

server::PeerVectorsOptions PeerVectorsOptionsOf(const TrainingJob& job, WorkerId worker) {
  const bool whole = job.team == nullptr;
  return {.layout = whole ? job.layout : SeatLayoutOf(job, wire::SeatOf(worker, job.team->shape)),
          .optimizer = job.specs.optimizer,
          .schedule = job.specs.schedule,
          .total_clocks = job.total_clocks,
          .seed = job.seed,
          .given = job.given,
          .fault = job.store_fault};
}

std::unique_ptr<server::PeerVectors> PeerVectorsOf(const TrainingJob& job, WorkerId worker) {
  if (!HasPeer(job, worker)) return nullptr;
  return server::MakePeerVectors(PeerVectorsOptionsOf(job, worker));
}

}  // namespace soapstone::cluster
