// The device of a real worker, as its thread runs it: an executor of the job's model, of tensors or
// of tables, and after each command the rest that the straggler model asks for. A part of the
// worker's shell.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "apps/loop/device_thread.h"
#include "cluster/job.h"
#include "models/runtime/graph_runner.h"
#include "worker/device/seat_executor.h"

namespace soapstone::apps {

// `replica`: as WarmReplica has made it; null where the model has no graph. Error: an operator that
// this machine cannot run.
absl::StatusOr<DeviceThread::Runner> MakeDeviceRunner(const Job& job, WorkerId worker,
                                                      std::shared_ptr<models::GraphRunner> replica);

// Of a worker that has a seat in a team.
absl::StatusOr<DeviceThread::Runner> MakeSeatRunner(std::shared_ptr<worker::SeatExecutor> seat);

}  // namespace soapstone::apps
