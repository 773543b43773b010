// StepProfiler: runs training steps of a replica on random data and takes the time of every
// operator, forward and backward. Used by `soapstone profile`. Knows no output format.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/memory/buffer.h"
#include "compute/kernel.h"
#include "models/data/mini_batch.h"
#include "models/runtime/graph_runner.h"

namespace soapstone::apps {

struct TimeSlice {
  Nanos begin = 0, end = 0;  // since the step began
  Nanos took() const { return end - begin; }
};

// One step. By operator; of a backward half with nothing to do the times are there, and short.
struct StepTimes {
  std::vector<TimeSlice> forward, backward;
  Nanos took = 0;       // to the last gradient in the host's memory
  double loss_sum = 0;  // of the samples
  // What a device's queues did: kernels have the names of the operator and its half, as those of
  // OperatorSpan, or of the segment's first and last; copies of the parameter.
  std::vector<compute::QueueSpan> spans;
};
std::string OperatorSpan(const models::Op& op, bool forward);

// Of the steps that were run at one batch size.
struct StepProfile {
  int64_t samples = 0;
  size_t steps = 0;
  std::vector<Nanos> forward, backward;  // medians, by operator
  Nanos step = 0;                        // median
  // The step nearest the median. Of a device: one whose operators were started one by one, so that
  // each has its times, as in the medians by operator; and the queues of one as those were that the
  // median of steps is of.
  StepTimes typical;
  std::vector<compute::QueueSpan> as_run;

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
  // On a device: with the times of its queues. single_calls: operators are started one by one.
  absl::StatusOr<StepTimes> RunWatched(int64_t samples, bool single_calls);

  // A step that is not counted (of a device two: it records the second), then steps until `seconds`
  // have passed, at least 3. progress: of the time, in [0, 1), after each; may be null.
  using Progress = std::function<void(double fraction, size_t steps)>;
  absl::StatusOr<StepProfile> Measure(int64_t samples, double seconds, const Progress& progress);

 private:
  explicit StepProfiler(std::unique_ptr<models::GraphRunner> replica);
  absl::StatusOr<StepTimes> RunStep(int64_t samples, bool single_calls);
  absl::Status MeasureOperators(int64_t samples, StepProfile* profile);

  std::unique_ptr<models::GraphRunner> replica_;
  BufferPool pool_;
  std::vector<BufferPool::Block> gradients_;           // by parameter
  std::vector<std::vector<absl::Span<float>>> where_;  // by operator
  models::MiniBatch feed_;                             // of the last batch size
  uint64_t step_ = 0;
};

}  // namespace soapstone::apps
