#include "sim/actors.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace soapstone::sim {
namespace {

constexpr uint32_t kWorkersMax = 100'000;
constexpr uint32_t kShardsMax = 4096;
constexpr uint32_t kBucketsMax = 1024;

absl::Status CheckShape(const JobShape& shape) {
  const auto in_range = [](const char* what, uint64_t value, uint64_t high) {
    if (value >= 1 && value <= high) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(what, " = ", value, " is outside [1, ", high, "]"));
  };
  SOAP_RETURN_IF_ERROR(in_range("workers", shape.workers, kWorkersMax));
  SOAP_RETURN_IF_ERROR(in_range("shards", shape.shards, kShardsMax));
  SOAP_RETURN_IF_ERROR(in_range("buckets a shard", shape.buckets_per_shard, kBucketsMax));
  SOAP_RETURN_IF_ERROR(in_range("stages", shape.stages, shape.shards));
  SOAP_RETURN_IF_ERROR(in_range("clocks", static_cast<uint64_t>(shape.clocks), kClockMax));
  // The layout cuts no slice smaller than 1,024 elements.
  if (shape.bucket_elements < 1024) {
    return absl::InvalidArgumentError("a bucket has at least 1024 elements");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ActorFactory> ActorFactory::Make(JobShape shape, const Training* training) {
  if (training != nullptr) shape.shards = training->layout->shard_count();
  SOAP_RETURN_IF_ERROR(CheckShape(shape));
  if (shape.leaf_count == 0) shape.leaf_count = shape.workers;
  ActorFactory factory;
  factory.shape_ = std::move(shape);
  factory.training_ = training;
  if (training != nullptr) {
    factory.layout_ = training->layout;
    factory.ops_ = training->ops;
  } else {
    SOAP_RETURN_IF_ERROR(factory.LayOut());
  }
  factory.worker_layout_ = factory.layout_;
  if (factory.shape_.policy.decentralised()) {
    factory.worker_layout_ =
        std::make_shared<const wire::Layout>(wire::Layout::Whole(factory.layout_->params()));
  }
  return factory;
}

// A parameter a bucket, all of a stage of one operator.
absl::Status ActorFactory::LayOut() {
  std::vector<ParamSpec> params;
  const uint32_t count = shape_.shards * shape_.buckets_per_shard;
  std::vector<worker::OpOutline> ops(shape_.stages);
  for (uint32_t i = 0; i < count; ++i) {
    params.push_back(
        {.name = absl::StrCat("p", i), .shape = {static_cast<int64_t>(shape_.bucket_elements), 1}});
    ops[uint64_t{i} * shape_.stages / count].params.push_back(ParamId{i});
  }
  SOAP_ASSIGN_OR_RETURN(
      wire::Layout layout,
      wire::Layout::Build(std::move(params), {.shard_count = shape_.shards,
                                              .bucket_bytes = shape_.bucket_elements * 4,
                                              .stages = shape_.stages}));
  layout_ = std::make_shared<const wire::Layout>(std::move(layout));
  ops_ = std::make_shared<const std::vector<worker::OpOutline>>(std::move(ops));
  return absl::OkStatus();
}

server::Shard ActorFactory::MakeShard(ShardId id) const {
  server::Store store = training_ != nullptr
                            ? training_->make_store(id)
                            : server::Store(server::CountStore(layout_->bucket_count(id)));
  store.SetFault(shape_.store_fault);
  return server::Shard({.id = id,
                        .layout = layout_,
                        .policy = shape_.policy,
                        .leaf_count = shape_.leaf_count,
                        .final_clock = rounds()},
                       std::move(store));
}

worker::Engine ActorFactory::MakeEngine(WorkerId id) const {
  return worker::Engine(
      {.id = id,
       .layout = worker_layout_,
       .ops = ops_,
       .policy = shape_.policy,
       .leaf_count = shape_.leaf_count,
       .total_clocks = shape_.clocks,
       // Without data, one sample a leaf.
       .train_samples = training_ != nullptr ? training_->train_samples : shape_.leaf_count,
       .batch = training_ != nullptr ? training_->batch : shape_.leaf_count,
       .skip_not_finite = training_ != nullptr && training_->skip_not_finite,
       .patience_ns = shape_.patience_ns});
}

server::Peer ActorFactory::MakePeer(WorkerId id) const {
  return server::Peer({.id = id,
                       .worker_layout = worker_layout_,
                       .shard_layout = layout_,
                       .policy = shape_.policy,
                       .total_clocks = shape_.clocks},
                      training_ != nullptr ? training_->make_peer_vectors(id) : nullptr);
}

scheduler::Coordinator ActorFactory::MakeCoordinator(bool evaluate) const {
  return scheduler::Coordinator({.servers = shards(),
                                 .workers = shape_.workers,
                                 .shards_per_server = 1,
                                 .evaluate = evaluate,
                                 .save = false,
                                 .rebalance = shape_.rebalance});
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
