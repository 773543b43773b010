#include "sim/actors.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cluster/actor_options.h"

namespace soapstone::sim {
namespace {

constexpr uint32_t kWorkersMax = 100'000;
constexpr uint32_t kShardsMax = 4096;
constexpr uint32_t kBucketsMax = 1024;
constexpr uint32_t kLeavesEachToRebalance = 16;

absl::Status CheckRange(const char* what, uint64_t value, uint64_t high) {
  if (value >= 1 && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " = ", value, " is outside [1, ", high, "]"));
}

absl::Status CheckSizes(uint32_t workers, uint32_t shards, Clock clocks) {
  SOAP_RETURN_IF_ERROR(CheckRange("workers", workers, kWorkersMax));
  SOAP_RETURN_IF_ERROR(CheckRange("shards", shards, kShardsMax));
  return CheckRange("clocks", static_cast<uint64_t>(clocks), kClockMax);
}

absl::Status CheckShape(const JobShape& shape) {
  SOAP_RETURN_IF_ERROR(CheckSizes(shape.workers, shape.shards, shape.clocks));
  SOAP_RETURN_IF_ERROR(CheckRange("buckets a shard", shape.buckets_per_shard, kBucketsMax));
  SOAP_RETURN_IF_ERROR(CheckRange("stages", shape.transfer_stages, shape.shards));
  // The layout cuts no slice smaller than 1,024 elements.
  if (shape.bucket_elements < 1024) {
    return absl::InvalidArgumentError("a bucket has at least 1024 elements");
  }
  return absl::OkStatus();
}

// A parameter a bucket, all of a transfer stage of one operator.
absl::Status LayOut(const JobShape& shape, cluster::TrainingJob* job) {
  std::vector<ParamSpec> params;
  const uint32_t count = shape.shards * shape.buckets_per_shard;
  std::vector<worker::OpOutline> ops(shape.transfer_stages);
  for (uint32_t i = 0; i < count; ++i) {
    params.push_back(
        {.name = absl::StrCat("p", i), .shape = {static_cast<int64_t>(shape.bucket_elements), 1}});
    ops[uint64_t{i} * shape.transfer_stages / count].params.push_back(ParamId{i});
  }
  SOAP_ASSIGN_OR_RETURN(
      wire::Layout layout,
      wire::Layout::Build(std::move(params), {.shard_count = shape.shards,
                                              .bucket_bytes = shape.bucket_elements * 4,
                                              .transfer_stages = shape.transfer_stages}));
  job->layout = std::make_shared<const wire::Layout>(std::move(layout));
  job->ops = std::make_shared<const std::vector<worker::OpOutline>>(std::move(ops));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint32_t> MicroBatchesOf(const consistency::PolicyTraits& policy, uint32_t workers,
                                        uint32_t asked, bool rebalance) {
  SOAP_RETURN_IF_ERROR(consistency::CheckWorkers(policy, workers));
  if (rebalance && !policy.weighs_samples()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "re-balancing goes with policies that take every gradient, not ", policy.spec));
  }
  if (asked == 0) return rebalance ? kLeavesEachToRebalance * workers : workers;
  if (asked < workers) {
    return absl::InvalidArgumentError(absl::StrCat("micro_batches: ", asked, " is less than the ",
                                                   workers, " workers: each needs one at least"));
  }
  if (rebalance && asked == workers) {
    return absl::InvalidArgumentError("re-balancing needs more micro-batches than workers");
  }
  return asked;
}

absl::StatusOr<ActorFactory> ActorFactory::Make(const JobShape& shape) {
  SOAP_RETURN_IF_ERROR(CheckShape(shape));
  const uint32_t micro_batches =
      shape.micro_batch_count == 0 ? shape.workers : shape.micro_batch_count;
  ActorFactory factory;
  factory.rebalance_ = shape.rebalance;
  factory.idle_servers_ = shape.idle_servers;
  factory.faults_ = {.replica = shape.replica_fault, .engine = shape.engine_fault};
  factory.job_ = {.specs = {.policy = shape.policy},
                  .batch = micro_batches,  // without data, one sample a micro-batch
                  .micro_batches = micro_batches,
                  .total_clocks = shape.clocks,
                  .workers = shape.workers,
                  .replicas = shape.replicas,
                  .rebalance = shape.rebalance.micro_batch_count > 0,
                  .patience_ns = shape.patience_ns,
                  .store_fault = shape.store_fault,
                  .train_samples = micro_batches};
  SOAP_RETURN_IF_ERROR(LayOut(shape, &factory.job_));
  cluster::Complete(&factory.job_);
  if (shape.small_stretches) {
    SOAP_ASSIGN_OR_RETURN(wire::Layout layout,
                          wire::Layout::Build(factory.job_.layout->params(),
                                              {.bucket_bytes = shape.bucket_elements * 4}));
    factory.job_.worker_layout = std::make_shared<const wire::Layout>(std::move(layout));
    factory.job_.stretch_elements = shape.bucket_elements;
  }
  return factory;
}

absl::StatusOr<ActorFactory> ActorFactory::MakeTraining(const Training& training) {
  ActorFactory factory;
  factory.training_ = &training;
  factory.job_ = training.job;
  factory.job_.replicas = 1;  // virtual time has no server that is lost
  cluster::TrainingJob& job = factory.job_;
  SOAP_ASSIGN_OR_RETURN(job.micro_batches, MicroBatchesOf(job.specs.policy, factory.teams().teams,
                                                          job.micro_batches, job.rebalance));
  SOAP_RETURN_IF_ERROR(CheckSizes(job.workers, job.layout->shard_count(), job.total_clocks));
  if (job.rebalance) factory.rebalance_.micro_batch_count = job.micro_batches;
  return factory;
}

wire::TeamShape ActorFactory::teams() const {
  if (job_.team != nullptr) return job_.team->shape;
  return {.teams = job_.workers, .seats = 1};
}

server::Shard ActorFactory::MakeShard(ShardId id) const {
  server::Store store = training_ != nullptr
                            ? training_->make_store(id)
                            : server::Store(server::CountStore(layout().bucket_count(id)));
  store.SetFault(job_.store_fault);
  return server::Shard(cluster::ShardOptionsOf(job_, id), std::move(store));
}

server::Replica ActorFactory::MakeReplica(ServerId server, ShardId id) const {
  return server::Replica({.self = server, .chained = job_.replicas > 1, .fault = faults_.replica},
                         MakeShard(id));
}

worker::Engine ActorFactory::MakeEngine(WorkerId id) const {
  worker::EngineOptions options = cluster::EngineOptionsOf(job_, id);
  options.fault = faults_.engine;
  return worker::Engine(std::move(options));
}

server::Peer ActorFactory::MakePeer(WorkerId id) const {
  return server::Peer(cluster::PeerOptionsOf(job_, id),
                      training_ != nullptr ? training_->make_peer_vectors(id) : nullptr);
}

scheduler::Coordinator ActorFactory::MakeCoordinator(bool evaluate) const {
  return scheduler::Coordinator(
      {.servers = servers(),
       .workers = job_.workers,
       .shards_per_server = 1,
       .replicas = job_.replicas,
       .idle_servers = idle_servers_,
       .evaluate = evaluate,
       .save = false,
       .rebalance = rebalance_,
       .team = job_.team != nullptr ? std::optional(teams()) : std::nullopt,
       .needs_all_teams = policy().takes_over(),
       .ends_with_a_team = policy().decentralised()});
}

wire::Message ActorFactory::MakeHello(wire::Address from, int64_t wanted_rank,
                                      uint64_t nonce) const {
  wire::Message message;
  message.type = wire::MessageType::kHello;
  message.from = from;
  message.to = wire::Address::Scheduler();
  message.body = wire::Hello{.role = from.role, .wanted_rank = wanted_rank, .nonce = nonce};
  return message;
}

}  // namespace soapstone::sim
