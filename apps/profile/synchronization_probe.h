// What keeping copies of parameters equal takes real processes of this machine: a cluster is
// started, trains the smallest of models, and is timed. Called by `soapstone plan
// --measure_machine`.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "base/ids.h"

namespace soapstone::apps {

// A synchronous step of `workers`, besides their operators: fixed_ns + bytes · ns_per_byte, where
// bytes are those of all parameters.
struct SyncTimes {
  double fixed_ns = 0;     // messages, wake-ups, instructions of the engine
  double ns_per_byte = 0;  // collected, sent, summed, applied, sent back, loaded
};

// From the median steps of `softmax` of two sizes (of a hundred bytes and of 4.2 MB) on random
// samples, one a worker, in jobs of `workers`, `servers` and policy bsp with plain SGD, from which
// the time of the operators (alone, times `slowdown`) is subtracted. Takes some seconds.
// Errors: the programs of the cluster are not beside this one; a job failed.
absl::StatusOr<SyncTimes> MeasureSynchronization(uint32_t workers, uint32_t servers,
                                                 double slowdown);

}  // namespace soapstone::apps
