// ActorFactory: makes the actors of a simulated cluster, which are the ones that ship, with the
// options that they have everywhere (cluster/actor_options.h): of a job without tensors (count
// stores, one operator, one micro-batch a worker unless told otherwise), or of one that really
// trains, with what its Training puts behind them. Who calls: the virtual cluster, the world, the
// replay. Knows no time, nor who picks messages.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "cluster/training_job.h"
#include "consistency/levels.h"
#include "consistency/policy.h"
#include "scheduler/coordinator.h"
#include "server/peer/peer.h"
#include "server/replica/replica.h"
#include "server/shard/shard.h"
#include "sim/training.h"
#include "wire/layout.h"
#include "wire/membership/teams.h"
#include "wire/message.h"
#include "worker/engine.h"

namespace soapstone::sim {

// What a job without tensors is made from.
struct JobShape {
  uint32_t workers = 1;
  uint32_t shards = 1;        // each on a server of its own
  uint32_t replicas = 1;      // of each shard, on as many servers
  uint32_t idle_servers = 0;  // beside those, which have replicas alone
  uint32_t buckets_per_shard = 1;
  uint64_t bucket_elements = 1024;  // sizes messages; no memory is taken for them
  consistency::PolicyTraits policy;
  Clock clocks = 1;                       // local steps of a worker
  uint32_t micro_batch_count = 0;         // M; 0: one a worker
  uint32_t transfer_stages = 1;           // of the layout, an operator each; divides shards
  scheduler::RebalanceOptions rebalance;  // its micro_batch_count is 0, or M
  Nanos patience_ns = 5 * kSecond;        // of workers, with values (worker::EngineOptions)
  // Of peers: buckets and stretches of one parameter each; else what a job has.
  bool small_stretches = false;
  // Of the shards' stores that count; for tests of ledgers and checkers.
  server::StoreFault store_fault = server::StoreFault::kNone;
  // Of replicas, and of workers towards them.
  server::ReplicaFault replica_fault = server::ReplicaFault::kNone;
  worker::EngineFault engine_fault = worker::EngineFault::kNone;
};

class ActorFactory {
 public:
  // Of a job without tensors. Error: InvalidArgument where the shape cannot be laid out.
  static absl::StatusOr<ActorFactory> Make(const JobShape& shape);
  // Of one that trains; `training` outlives the factory. Error: InvalidArgument that says which
  // size of the job is out of bounds.
  static absl::StatusOr<ActorFactory> MakeTraining(const Training& training);

  server::Shard MakeShard(ShardId id) const;
  server::Replica MakeReplica(ServerId server, ShardId id) const;
  worker::Engine MakeEngine(WorkerId id) const;
  // Decentralised policies: the peer beside a worker. Without training it has no values.
  server::Peer MakePeer(WorkerId id) const;
  // Without saving. Its timers are never served: nobody is lost by silence. With `evaluate` the job
  // ends with one worker's final pull, which waits for every update; else with the last kDone.
  scheduler::Coordinator MakeCoordinator(bool evaluate) const;
  // A node's Hello. `from` is where the answer goes.
  wire::Message MakeHello(wire::Address from, int64_t wanted_rank, uint64_t nonce) const;

  // Its number of micro-batches is never 0.
  const cluster::TrainingJob& job() const { return job_; }
  const consistency::PolicyTraits& policy() const { return job_.specs.policy; }
  // Those that a policy counts: teams, of one seat each where the model is not split.
  wire::TeamShape teams() const;
  // Of all levels of the tree of servers: the layout's where there is none.
  uint32_t shards() const {
    return layout().shard_count() * consistency::ServerCopies(policy(), job_.workers);
  }
  const wire::Layout& layout() const { return *job_.layout; }
  uint32_t servers() const { return shards() + idle_servers_; }
  // What engines see: the layout, or, decentralised, that of their peer.
  const wire::Layout& worker_layout() const { return *job_.worker_layout; }
  Clock rounds() const { return policy().Rounds(job_.total_clocks); }

 private:
  cluster::TrainingJob job_;
  struct Faults {
    server::ReplicaFault replica = server::ReplicaFault::kNone;
    worker::EngineFault engine = worker::EngineFault::kNone;
  };
  Faults faults_;
  uint32_t idle_servers_ = 0;
  scheduler::RebalanceOptions rebalance_;
  const Training* training_ = nullptr;
};

// How many micro-batches a global batch is cut into: `asked`, or where that is 0 one a worker, or
// 16 to share them out by speed. Error: InvalidArgument where the policy or the workers do not go
// with it.
absl::StatusOr<uint32_t> MicroBatchesOf(const consistency::PolicyTraits& policy, uint32_t workers,
                                        uint32_t asked, bool rebalance);

}  // namespace soapstone::sim
