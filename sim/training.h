// Training: what a caller puts behind the actors of a simulated job so that it really trains: the
// values of the shards, and devices that carry out the workers' commands. The cost model alone goes
// on deciding when an answer arrives: virtual time for when, real gradients for what.
// Who calls: experiment/cosim/cosim.h fills it in; the virtual cluster calls it. Knows no kernel:
// tensors are buffers here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "cluster/training_job.h"
#include "server/peer/peer_vectors.h"
#include "server/store/store.h"
#include "worker/device/device.h"

namespace soapstone::sim {

// Where a training run stands, once all that happens at `now` has happened.
struct TrainingMoment {
  Nanos now = 0;
  uint64_t samples = 0;  // trained on, by all workers
  double loss_sum = 0;   // over them, each with the parameters it was computed with
  uint64_t bytes = 0;    // sent so far, as VirtualResult::bytes
};

struct Training {
  cluster::TrainingJob job;  // complete

  // A shard's store. It counts what it applies as well: the checkers look at counts.
  std::function<server::Store(ShardId)> make_store;

  // Decentralised policies: what a worker's peer keeps. The caller may look into it all along.
  std::function<std::shared_ptr<server::PeerVectors>(WorkerId)> make_peer_vectors;

  // Carries out one command of a worker and appends its event where one is wanted. Called when the
  // command reaches the device's queue, in the order of that queue; a program's commands from its
  // load to its last collect come one after another, with no other worker's among them. The time in
  // the event is overwritten.
  std::function<void(WorkerId, const worker::DeviceCommand&, std::vector<worker::DeviceEvent>*)>
      device;

  // The worker's process has failed: its device begins anew, with nothing loaded, and so does what
  // its peer keeps.
  std::function<void(WorkerId)> restart;

  // Called each time before virtual time moves on, and at the end with every update applied.
  std::function<void(const TrainingMoment&)> settled;
};

}  // namespace soapstone::sim
