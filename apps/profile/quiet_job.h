// Jobs whose steps are timed, and which are otherwise of no account: probes of a machine, trials of
// a strategy.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "wire/config/job.pb.h"

namespace soapstone::apps {

// Nanoseconds of a step: the median time between the ends of a worker's successive iterations, of
// all workers, without the first `warm_up` of each. Runs the whole job in processes of this machine
// that say nothing, and keep nothing but what lies in `folder`. `config`: with its defaults; what
// it says of outputs is left out. Errors: the programs of the cluster are not beside this one; the
// job cannot run or failed, with what it said last; it has no more steps than warm_up.
absl::StatusOr<double> MedianStepOfJob(wire::JobConfig config, const std::string& folder,
                                       size_t warm_up);

}  // namespace soapstone::apps
