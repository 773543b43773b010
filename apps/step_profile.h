// StepProfiler: runs training steps of a replica on random data and takes the time of every
// operator, forward and backward. Used by `soapstone profile`. Knows no output format.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "models/feed.h"
#include "models/replica.h"

namespace soapstone::apps {

struct TimeSlice {
  Nanos begin = 0, end = 0;  // since the step began
  Nanos took() const { return end - begin; }
};

// One step. By operator; of a backward half with nothing to do the times are there, and short.
struct StepTimes {
  std::vector<TimeSlice> forward, backward;
  Nanos took = 0;
  double loss_sum = 0;  // of the samples
};

// Of the steps that were run at one batch size.
struct StepProfile {
  int64_t samples = 0;
  size_t steps = 0;
  std::vector<Nanos> forward, backward;  // medians, by operator
  Nanos step = 0;                        // median
  StepTimes typical;                     // the step nearest the median

  Nanos sum() const;  // of the medians of operators
};

// One thread. Gradients are summed but not applied: every step computes the same.
class StepProfiler {
 public:
  // Takes memory for the parameters, their gradients and, at the first step, the activations.
  // Parameters have their initial values.
  static absl::StatusOr<std::unique_ptr<StepProfiler>> Create(models::Graph graph,
                                                              models::ReplicaOptions options);

  // Error: out of memory.
  absl::StatusOr<StepTimes> Run(int64_t samples);

  // A step that is not counted, then steps until `seconds` have passed, at least 3. progress: of
  // the time, in [0, 1), after each; may be null.
  using Progress = std::function<void(double fraction, size_t steps)>;
  absl::StatusOr<StepProfile> Measure(int64_t samples, double seconds, const Progress& progress);

 private:
  explicit StepProfiler(std::unique_ptr<models::Replica> replica);

  std::unique_ptr<models::Replica> replica_;
  std::vector<std::vector<float>> gradients_;          // by parameter
  std::vector<std::vector<absl::Span<float>>> where_;  // by operator
  models::Feed feed_;                                  // of the last batch size
  uint64_t step_ = 0;
};

}  // namespace soapstone::apps
