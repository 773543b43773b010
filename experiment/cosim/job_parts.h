// The parts of a job that stand behind simulated actors when they really train: stores, devices,
// and what the actors need to know of the model. Co-simulation and replay are built from them.
#pragma once

#include <memory>

#include "experiment/cosim/cosim.h"
#include "server/peer/peer_vectors.h"
#include "server/store/store.h"
#include "sim/training.h"
#include "worker/device/executor.h"

namespace soapstone::experiment {

// What workers see of who keeps the parameters: the job's layout, or that of their own peer.
std::shared_ptr<const wire::Layout> WorkerLayoutOf(const CosimJob& job);

// Without a replica of its own, and without a clock: devices here take no time.
worker::ExecutorOptions ExecutorOptionsOf(const CosimJob& job, WorkerId worker);

server::TensorStoreOptions StoreOptionsOf(const CosimJob& job, ShardId shard);

// Decentralised policies: what a worker's peer keeps.
std::shared_ptr<server::PeerVectors> MakePeerVectors(const CosimJob& job);

// The model's shape; without stores and device.
sim::Training TrainingOf(const CosimJob& job);

}  // namespace soapstone::experiment
