// ActorFactory: makes the actors of a simulated cluster, which are the ones that ship: for a job
// without tensors (count stores, one operator, one leaf a worker unless told otherwise), or for one
// that really trains, with what its Training puts behind them.
// Who calls: the virtual cluster and the world. Knows nothing of time or of who picks messages.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "consistency/levels.h"
#include "consistency/policy.h"
#include "scheduler/coordinator.h"
#include "server/peer/peer.h"
#include "server/shard/shard.h"
#include "sim/training.h"
#include "wire/layout.h"
#include "wire/message.h"
#include "worker/engine.h"

namespace soapstone::sim {

struct JobShape {
  uint32_t workers = 1;
  uint32_t shards = 1;  // each on a server of its own
  uint32_t buckets_per_shard = 1;
  uint64_t bucket_elements = 1024;  // sizes messages; no memory is taken for them
  consistency::PolicyTraits policy;
  Clock clocks = 1;                       // local steps of the run
  uint32_t leaf_count = 0;                // M; 0: one a worker
  uint32_t stages = 1;                    // of the layout, an operator each; divides shards
  scheduler::RebalanceOptions rebalance;  // its leaf_count is 0, or M
  Nanos patience_ns = 5 * kSecond;        // of workers, with values (worker::EngineOptions)
  // Of the shards' stores that count; for tests of ledgers and checkers.
  server::StoreFault store_fault = server::StoreFault::kNone;
};

class ActorFactory {
 public:
  // With `training`, whose layout then says shards and buckets; it outlives the factory. Error:
  // InvalidArgument where the shape cannot be laid out.
  static absl::StatusOr<ActorFactory> Make(JobShape shape, const Training* training = nullptr);

  server::Shard MakeShard(ShardId id) const;
  worker::Engine MakeEngine(WorkerId id) const;
  // Decentralised policies: the peer beside a worker. Without training it has no values.
  server::Peer MakePeer(WorkerId id) const;
  // Without saving. Its timers are never served: nobody is lost by silence. With `evaluate` the job
  // ends with one worker's final pull, which waits for every update; else with the last kDone.
  scheduler::Coordinator MakeCoordinator(bool evaluate) const;
  // A node's Hello. `from` is where the answer goes.
  wire::Message MakeHello(wire::Address from, int64_t wanted_rank, uint64_t nonce) const;

  const JobShape& shape() const { return shape_; }
  // Of all levels of the tree of servers: shape().shards where there is none.
  uint32_t shards() const {
    return shape_.shards * consistency::ServerCopies(shape_.policy, shape_.workers);
  }
  const wire::Layout& layout() const { return *layout_; }
  // What engines see: the layout, or, decentralised, that of their peer.
  const wire::Layout& worker_layout() const { return *worker_layout_; }
  Clock rounds() const { return shape_.policy.Rounds(shape_.clocks); }

 private:
  absl::Status LayOut();

  JobShape shape_;
  const Training* training_ = nullptr;
  std::shared_ptr<const wire::Layout> layout_;
  std::shared_ptr<const wire::Layout> worker_layout_;
  std::shared_ptr<const std::vector<worker::OpOutline>> ops_;
};

}  // namespace soapstone::sim
