#include "experiment/cosim/job_replay.h"

#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "cluster/actor_options.h"
#include "compute/cpu/backend.h"
#include "glog/logging.h"
#include "models/runtime/graph_runner.h"
#include "server/peer/peer_vectors.h"
#include "server/store/store.h"
#include "worker/device/executor.h"
#include "worker/device/seat_executor.h"

namespace soapstone::experiment {

namespace {

template <typename Executor>
sim::ReplayDevice DeviceOf(std::unique_ptr<Executor> made) {
  return [executor = std::shared_ptr<Executor>(std::move(made))](
             const worker::DeviceCommand& command, std::vector<worker::DeviceEvent>* events) {
    executor->Run(command, events);
  };
}

// Of a worker with a seat in a team what its section is run by, else a whole model's.
absl::StatusOr<sim::ReplayDevice> MakeReplayDevice(const cluster::TrainingJob& job,
                                                   WorkerId worker) {
  if (job.team != nullptr) {
    worker::SeatExecutorOptions options = cluster::SeatExecutorOptionsOf(job, worker);
    options.backend = compute::MakeCpuBackend({.threads = job.threads});
    SOAP_ASSIGN_OR_RETURN(auto seat, worker::SeatExecutor::Create(std::move(options)));
    return DeviceOf(std::move(seat));
  }
  worker::ExecutorOptions options = cluster::ExecutorOptionsOf(job, worker);
  SOAP_ASSIGN_OR_RETURN(
      options.replica,
      models::GraphRunner::Create(*job.graph, {.threads = job.threads, .seed = job.seed}));
  SOAP_ASSIGN_OR_RETURN(auto executor, worker::Executor::Create(std::move(options)));
  return DeviceOf(std::move(executor));
}

}  // namespace

absl::StatusOr<sim::ReplayResult> ReplayJob(const cluster::TrainingJob& job,
                                            const scheduler::CoordinatorOptions& coordinator,
                                            const sim::Recording& recording,
                                            std::function<void(uint64_t events)> progress) {
  // Whether devices can be made at all: the first tells of the others.
  SOAP_RETURN_IF_ERROR(MakeReplayDevice(job, WorkerId{0}).status());
  const sim::Training training = {
      .job = job,
      .make_store =
          [&job](ShardId shard) { return server::Store(cluster::StoreOptionsOf(job, shard)); },
      .make_peer_vectors = [&job](WorkerId worker) { return cluster::PeerVectorsOf(job, worker); }};
  const sim::ReplayOptions options = {.coordinator = coordinator,
                                      .training = &training,
                                      .make_device = [&job](WorkerId worker) -> sim::ReplayDevice {
                                        absl::StatusOr<sim::ReplayDevice> made =
                                            MakeReplayDevice(job, worker);
                                        CHECK(made.ok()) << made.status();
                                        return *std::move(made);
                                      },
                                      .progress = std::move(progress)};
  return sim::Replay(recording, options);
}

}  // namespace soapstone::experiment
