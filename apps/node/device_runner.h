// The device of a real worker, as its thread runs it: an executor of the job's model, of tensors or
// of tables, and after each command the rest that the straggler model asks for. A part of the
// worker's shell.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "apps/loop/device_thread.h"
#include "cluster/job.h"
#include "models/runtime/graph_runner.h"
#include "worker/device/seat_executor.h"

namespace soapstone::apps {

// `replica`: as WarmReplica has made it; null where the model has no graph. `seat`: as PrepareSeat
// has, of a worker with one, whose device is that alone; else null. Error: an operator that this
// machine cannot run.
absl::StatusOr<DeviceThread::Runner> MakeDeviceRunner(const Job& job, WorkerId worker,
                                                      std::shared_ptr<models::GraphRunner> replica,
                                                      std::shared_ptr<worker::SeatExecutor> seat);

// Of a worker that has a seat in a team: what it runs depends on its rank, which is therefore to be
// known before it registers; null where there is no such rank. `listens`: others can reach it.
// Errors: FailedPrecondition: it does not know its rank, or listens nowhere; a part that this
// machine cannot run.
absl::StatusOr<std::shared_ptr<worker::SeatExecutor>> PrepareSeat(const Job& job,
                                                                  int64_t wanted_rank,
                                                                  bool listens);

// What a worker computes that the device protocol numbers `op`: "conv1", of a seat "step 7".
std::string NameOfWork(const Job& job, uint32_t op);

}  // namespace soapstone::apps
