// Tries a job with a strategy and without: predictions may err, and steps of real processes do not.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "wire/config/job.pb.h"

namespace soapstone::apps {

// What a step takes, the median of some.
struct TriedSteps {
  Nanos split_ns = 0;
  Nanos whole_ns = 0;
};

// Trains some steps of both by turns (split, whole, whole, split; of long steps once each), without
// evaluation and outputs; what a trial needs lies in `folder`. `step`: what a step of either is
// predicted to take at most; by it the trial is made to take some seconds. Both with their
// defaults. Errors: of MedianStepOfJob, naming which of the two.
absl::StatusOr<TriedSteps> TrySteps(const wire::JobConfig& split, const wire::JobConfig& whole,
                                    Nanos step, const std::string& folder);

}  // namespace soapstone::apps
