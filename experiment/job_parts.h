// The parts of a job that stand behind simulated actors when they really train: stores, devices,
// and what the actors need to know of the model. Co-simulation and replay are built from them.
#pragma once

#include "experiment/cosim.h"
#include "server/store.h"
#include "sim/training.h"
#include "worker/executor.h"

namespace soapstone::experiment {

// Without a replica of its own, and without a clock: devices here take no time.
worker::ExecutorOptions ExecutorOptionsOf(const CosimJob& job);

server::TensorStore MakeTensorStore(const CosimJob& job, ShardId shard);

// The model's shape; without stores and device.
sim::Training TrainingOf(const CosimJob& job);

}  // namespace soapstone::experiment
