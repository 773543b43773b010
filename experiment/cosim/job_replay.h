// Replay of a recorded run with real gradients: real stores and devices behind the actors that
// sim/replay.h drives. Every worker has a device of its own, as it had in the run.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "cluster/recording.h"
#include "cluster/training_job.h"
#include "scheduler/coordinator.h"
#include "sim/replay.h"

namespace soapstone::experiment {

// `job`, complete, and `coordinator` are those of the recorded run. Errors: InvalidArgument where
// the recording is none of this job; an operator that this machine cannot run. That the replay
// diverged is no error: see the result.
absl::StatusOr<sim::ReplayResult> ReplayJob(const cluster::TrainingJob& job,
                                            const scheduler::CoordinatorOptions& coordinator,
                                            const sim::Recording& recording,
                                            std::function<void(uint64_t events)> progress);

}  // namespace soapstone::experiment
