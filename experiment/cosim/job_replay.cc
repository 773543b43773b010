#include "experiment/cosim/job_replay.h"

#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "experiment/cosim/job_parts.h"
#include "glog/logging.h"

namespace soapstone::experiment {

absl::StatusOr<sim::ReplayResult> ReplayJob(const CosimJob& job,
                                            const scheduler::CoordinatorOptions& coordinator,
                                            const sim::Recording& recording,
                                            std::function<void(uint64_t events)> progress) {
  // Whether devices can be made at all: the first tells of the others.
  SOAP_RETURN_IF_ERROR(worker::Executor::Create(ExecutorOptionsOf(job, WorkerId{0})).status());
  sim::Training training = TrainingOf(job);
  training.make_store = [&job](ShardId shard) { return server::Store(StoreOptionsOf(job, shard)); };
  training.make_peer_vectors = [&job](WorkerId) { return MakePeerVectors(job); };
  const sim::ReplayOptions options = {
      .shape = {.workers = job.workers,
                .policy = job.policy,
                .clocks = job.total_clocks,
                .leaf_count = job.micro_batches,
                .patience_ns = coordinator.timeout_ns},
      .coordinator = coordinator,
      .training = &training,
      .make_device = [&job](WorkerId worker) -> sim::ReplayDevice {
        absl::StatusOr<std::unique_ptr<worker::Executor>> made =
            worker::Executor::Create(ExecutorOptionsOf(job, worker));
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
