#include "experiment/cosim/job_replay.h"

#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "cluster/actor_options.h"
#include "glog/logging.h"
#include "models/runtime/graph_runner.h"
#include "server/peer/peer_vectors.h"
#include "server/store/store.h"
#include "worker/device/executor.h"

namespace soapstone::experiment {

absl::StatusOr<sim::ReplayResult> ReplayJob(const cluster::TrainingJob& job,
                                            const scheduler::CoordinatorOptions& coordinator,
                                            const sim::Recording& recording,
                                            std::function<void(uint64_t events)> progress) {
  using Made = absl::StatusOr<std::unique_ptr<worker::Executor>>;
  const auto make_executor = [&job](WorkerId worker) -> Made {
    worker::ExecutorOptions options = cluster::ExecutorOptionsOf(job, worker);
    SOAP_ASSIGN_OR_RETURN(
        options.replica,
        models::GraphRunner::Create(*job.graph, {.threads = job.threads, .seed = job.seed}));
    return worker::Executor::Create(std::move(options));
  };
  // Whether devices can be made at all: the first tells of the others.
  SOAP_RETURN_IF_ERROR(make_executor(WorkerId{0}).status());
  const sim::Training training = {
      .job = job,
      .make_store =
          [&job](ShardId shard) { return server::Store(cluster::StoreOptionsOf(job, shard)); },
      .make_peer_vectors =
          [&job](WorkerId) { return server::MakePeerVectors(cluster::PeerVectorsOptionsOf(job)); }};
  const sim::ReplayOptions options = {
      .coordinator = coordinator,
      .training = &training,
      .make_device = [make_executor](WorkerId worker) -> sim::ReplayDevice {
        absl::StatusOr<std::unique_ptr<worker::Executor>> made = make_executor(worker);
        CHECK(made.ok()) << made.status();
        return [executor = std::shared_ptr<worker::Executor>(*std::move(made))](
                   const worker::DeviceCommand& command, std::vector<worker::DeviceEvent>* events) {
          executor->Run(command, events);
        };
      },
      .progress = std::move(progress)};
  return sim::Replay(recording, options);
}

}  // namespace soapstone::experiment
