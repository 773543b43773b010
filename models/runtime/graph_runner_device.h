// ReplicaDevice: what a replica keeps of a device that computes beside its caller: parameters and
// gradients in its memory, their copies, and the recorded segments of a step. A part of
// graph_runner.h, called by nobody else.
//
// Queues in a step (>: waits for):
//   to the device    parameters of an operator > all that was asked for before the step
//   compute          segment of the forward pass > its parameters ... segment of the backward pass
//   from the device  loss > the forward pass; gradients of a segment > the segment
// so that a gradient leaves while the segments before it run backward.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/ids.h"
#include "compute/kernel.h"
#include "models/graph/graph.h"

namespace soapstone::models {

// Of steps of one shape: recordings by segment. They hold for one block of activations.
struct RecordedStep {
  const void* memory = nullptr;
  std::vector<std::unique_ptr<compute::Recording>> forward, backward;
};

class ReplicaDevice {
 public:
  // Runs the kernels of one operator, forward or backward.
  using RunOp = absl::FunctionRef<void(size_t op)>;

  // Outlived by both. Errors: the device's memory does not hold the parameters and gradients.
  static absl::StatusOr<std::unique_ptr<ReplicaDevice>> Create(compute::Backend* backend,
                                                               const Graph* graph);

  float* param(ParamId id) const { return Floats(params_[soapstone::Index(id)].memory); }
  float* gradient(ParamId id) const { return Floats(gradients_[soapstone::Index(id)]); }

  // Ascending first operators of segments, but for 0. Recordings of others are void.
  void Cut(std::vector<uint32_t> begins);

  // Starts a step: it begins after all that was asked for.
  void Begin();
  // Records the segments of a step that has been run before. Error: the device cannot.
  absl::Status Record(uint64_t step, uint64_t first_sample, bool training, RunOp forward,
                      RunOp backward, RecordedStep* recorded);

  // When the queues did what, in the steps from Watch to Unwatch.
  void Watch();
  std::vector<compute::QueueSpan> Unwatch();

  // Copies a parameter, [elements] f32, for the operators that run forward from now on.
  void SendParam(ParamId id, const float* values);
  // Returns when the values of the last SendParam may be changed.
  void WaitForParam(ParamId id) const { backend_->Wait(params_[soapstone::Index(id)].sent); }

  // The step's keys, and its recordings or null.
  struct StepRun {
    uint64_t step = 0, first_sample = 0;
    const RecordedStep* recorded = nullptr;
  };
  // Operator `op` runs forward, and all before it; a recorded segment when its last one does.
  // `at_once`: it does not wait for that.
  void Forward(size_t op, const StepRun& run, bool at_once, RunOp forward);
  // Asks for the whole backward pass.
  void Backward(const StepRun& run, RunOp backward);
  // Copies the gradients of an operator, once Backward was asked for, to memory of AllocatePinned.
  void FetchGradients(size_t op, absl::Span<const absl::Span<float>> to);
  void WaitForGradients(size_t op) const { backend_->Wait(fetched_[op]); }
  // The same of the loss, [samples] f32, after the forward pass.
  void FetchLoss(const void* loss, int64_t samples, float* to);
  void WaitForLoss() const { backend_->Wait(loss_fetched_); }

 private:
  struct Param {
    std::shared_ptr<void> memory;
    uint64_t sent = 0;
  };
  ReplicaDevice(compute::Backend* backend, const Graph* graph);
  static float* Floats(const std::shared_ptr<void>& memory) {
    return static_cast<float*>(memory.get());
  }
  size_t SegmentOf(size_t op) const;
  size_t EndOf(size_t segment) const { return begins_[segment + 1]; }
  compute::Format FormatOf(ParamId id) const;
  void NameSegment(size_t begin, size_t end, absl::string_view half) const;

  compute::Backend* const backend_;
  const Graph* const graph_;
  std::vector<Param> params_;                     // by parameter
  std::vector<std::shared_ptr<void>> gradients_;  // by parameter
  std::vector<size_t> begins_;                    // of segments; then the number of operators

  // Points of the backend's queues.
  uint64_t step_begun_ = 0;
  uint64_t param_sent_ = 0;             // the last one
  std::vector<uint64_t> ran_backward_;  // by segment
  std::vector<uint64_t> fetched_;       // by operator
  uint64_t gradient_fetched_ = 0;       // the last one
  uint64_t loss_fetched_ = 0;

  bool watched_ = false;
  size_t forward_begun_ = 0;  // operators [0, forward_begun_) have been asked for
};

}  // namespace soapstone::models
