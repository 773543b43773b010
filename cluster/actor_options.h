// What each actor of a job is told of it, and each store and device behind one. Who calls: whoever
// makes actors: the nodes, virtual time, replays, tests, the bench. There is no second place where
// a value of the job becomes an option; who calls adds what is its own: a clock, a replica, a bound
// on memory. REQUIRES everywhere: the job is complete (training_job.h).
#pragma once

#include <memory>

#include "base/ids.h"
#include "cluster/training_job.h"
#include "server/peer/peer.h"
#include "server/peer/peer_vectors.h"
#include "server/shard/shard_options.h"
#include "server/store/contribution.h"
#include "worker/device/executor.h"
#include "worker/device/seat_executor.h"
#include "worker/device/sparse_executor.h"
#include "worker/engine_options.h"

namespace soapstone::cluster {

worker::EngineOptions EngineOptionsOf(const TrainingJob& job, WorkerId worker);

// Of a model of tensors; of one of tables. Without a replica, and with a clock that stands still:
// where time is virtual a device takes none.
worker::ExecutorOptions ExecutorOptionsOf(const TrainingJob& job, WorkerId worker);
worker::SparseExecutorOptions SparseExecutorOptionsOf(const TrainingJob& job);

// Of a worker that has a seat; without a backend. REQUIRES: the job has a team.
worker::SeatExecutorOptions SeatExecutorOptionsOf(const TrainingJob& job, WorkerId worker);

server::ShardOptions ShardOptionsOf(const TrainingJob& job, ShardId shard);
server::TensorStoreOptions StoreOptionsOf(const TrainingJob& job, ShardId shard);

// Of decentralised policies a worker has a peer beside it; but a seat that has no parameters has
// none.
bool HasPeer(const TrainingJob& job, WorkerId worker);
// REQUIRES: it has one.
server::PeerOptions PeerOptionsOf(const TrainingJob& job, WorkerId worker);
server::PeerVectorsOptions PeerVectorsOptionsOf(const TrainingJob& job, WorkerId worker);
// Null where it has none.
std::unique_ptr<server::PeerVectors> PeerVectorsOf(const TrainingJob& job, WorkerId worker);

}  // namespace soapstone::cluster
