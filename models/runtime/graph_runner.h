// GraphRunner: runs one graph on one backend, operator by operator, so that its caller decides when
// a parameter must be there and when a gradient leaves. The worker's device thread owns one; nobody
// else calls it. Knows nothing of workers, servers or time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/ids.h"
#include "base/memory/buffer.h"
#include "compute/kernel.h"
#include "models/graph/graph.h"
#include "models/graph/memory_plan.h"
#include "models/graph/step_graph.h"
#include "models/runtime/graph_runner_device.h"

namespace soapstone::models {

struct ReplicaOptions {
  std::shared_ptr<compute::Backend> backend;  // null: the CPU
  int threads = 1;                            // of that; bits depend on it
  uint64_t seed = 0;                          // of dropout
  // Keep only some activations and compute the others again in the backward pass, with cuts where
  // the planned memory is least.
  bool recompute = false;
  // On a device that can: the second step of a shape is recorded, in segments, and started from
  // there on by a call a segment in place of some an operator. The bits are the same.
  bool record = true;
  // Inputs of the graph whose gradients are wanted too, each float32 and read by one operator.
  std::vector<TensorId> input_gradients;
};

// What a step runs, and where its values lie.
struct StepPlan {
  StepGraph step;
  MemoryPlan memory;
  std::vector<std::unique_ptr<compute::Kernel>> kernels;  // by operator
};

// Of one mini-batch.
struct StepKey {
  bool training = true;       // false: evaluation; no backward half, running statistics, no dropout
  uint64_t step = 0;          // dropout's key, with
  uint64_t first_sample = 0;  // which samples of the global batch these are
  bool single_calls = false;  // not as recorded: so that every operator's time is seen
};

// A step is: Begin, ForwardOp of every operator in order, BackwardOp of every operator in reverse.
// Calls out of this order are CHECKed.
// Invariants:
//  1. Same graph, parameters, samples, key: same bits, in any process on this machine.
//  2. Gradients are summed over the samples of the step, not averaged.
//  3. BackwardOp uses the parameters as ForwardOp did: they are not to change in between.
// A device computes beside the caller: ForwardOp and BackwardOp ask for it and return. With the
// first BackwardOp all are asked for, so that the device has work while the caller waits for the
// first gradients.
// Threading: one thread at a time; it runs on the calling thread and those of the backend.
class GraphRunner {
 public:
  // Prepares the kernels for one sample, so that an operator that cannot be run is an error here.
  // Parameters start at zero: their values come from the servers (or compute::InitSlice).
  static absl::StatusOr<std::unique_ptr<GraphRunner>> Create(Graph graph,
                                                             ReplicaOptions options = {});

  ~GraphRunner();
  GraphRunner(const GraphRunner&) = delete;
  GraphRunner& operator=(const GraphRunner&) = delete;

  // What steps of n samples would run and need, found without taking memory for them or for the
  // parameters. Errors: those of Create.
  static absl::StatusOr<StepPlan> PlanStep(Graph graph, ReplicaOptions options, int64_t samples,
                                           bool training = true);

  const Graph& graph() const { return graph_; }

  // The values of a parameter, to be written before the ForwardOp that uses them.
  // Valid as long as the replica; asked for anew where a step has run since. [elements] f32
  absl::Span<float> param(ParamId id);
  absl::Span<const float> param(ParamId id) const { return params_[soapstone::Index(id)].floats(); }

  // Memory for another set of parameters of this graph, zero; and an exchange of the replica's own
  // for such a set, at no cost: so many workers of a simulation take turns on one replica.
  // REQUIRES of Swap: the same graph's set; not between a step's ForwardOp and its BackwardOp,
  // unless the step's own set is back by then.
  using Parameters = std::vector<BufferPool::Block>;
  Parameters NewParameters();
  void SwapParameters(Parameters* other);

  // Whether it computes beside the caller.
  bool on_device() const { return device_ != nullptr; }
  // Memory for gradients, from where they are sent: on a device's host such as it copies to while
  // it computes.
  BufferPool NewPool(size_t kept_bytes_max = size_t{256} << 20) const;
  // Where a device's step is cut into segments, ascending first operators: gradients leave it by
  // segments of the backward pass, and parameters get there by those of the forward pass.
  // Unless it is said: where a segment's parameters come to 1 MiB. REQUIRES: no step is on.
  void CutStep(std::vector<uint32_t> begins);

  // Prepares steps of n samples and returns the memory they need, in one block, without taking it.
  absl::StatusOr<MemoryPlan> Plan(int64_t samples, bool training = true);
  absl::StatusOr<const StepGraph*> Step(int64_t samples, bool training = true);

  // Starts a step on n >= 1 samples; they are copied. Error: out of memory.
  // fields: one for each of graph().inputs(), [n, its shape] of its type
  absl::Status Begin(int64_t samples, absl::Span<const void* const> fields, StepKey key = {});
  // The same for graphs with one input and a label a sample. CHECKs that there is memory.
  void Begin(absl::Span<const float> inputs, absl::Span<const int32_t> labels, StepKey key = {});

  void ForwardOp(size_t op);

  // Writes (not adds) the gradients of the operator's parameters straight to where they are sent
  // from. gradients: one span of [elements] f32 for each of ops()[op].params, in that order; of
  // NewPool's memory where there is a device, and not to be touched until WaitForGradients(op).
  void BackwardOp(size_t op, absl::Span<const absl::Span<float>> gradients);
  // Returns when the gradients of the last BackwardOp(op), and of those before it, are there.
  void WaitForGradients(size_t op) const;

  // After the last BackwardOp, of an input that the options name. [n, its shape] f32
  std::vector<float> InputGradient(TensorId input) const;

  // Of the step's samples; after the last ForwardOp, before a BackwardOp; of a device's training
  // step until the next Begin. A sample of many places counts as correct by the share of them that
  // is.
  double loss_sum() const;
  double correct() const;

  // The logits of the step; as above. [n, .., classes] f32
  std::vector<float> logits() const;

  // The first output of the operator that ran forward last; later ones may overwrite it. For looks
  // into a model. [n, ..] f32
  std::vector<float> output();

  // When a device's queues did what, in the steps from Watch to Unwatch; nothing on a host.
  void Watch();
  std::vector<compute::QueueSpan> Unwatch();

 private:
  // What runs n samples. `where`: by value, into the replica's memory.
  struct Prepared {
    std::vector<std::unique_ptr<compute::Kernel>> kernels;  // by operator
    std::vector<std::unique_ptr<compute::Kernel>> sums;     // by node; null but for kSum
    StepGraph step;
    MemoryPlan memory;
    std::vector<bool> zeros;  // by value
    uint64_t last_step = 0;
    const void* ran_in = nullptr;  // the memory of the last step
    RecordedStep recorded;         // of a device
  };
  using Key = std::pair<int64_t, bool>;  // samples, training

  GraphRunner(Graph graph, ReplicaOptions options);
  absl::StatusOr<Prepared*> Prepare(int64_t samples, bool training);
  absl::Status MakeKernels(int64_t samples, bool training, Prepared* made);
  absl::Status MakeSums(Prepared* made);
  void* At(ValueId id) const;
  std::vector<const void*> Read(absl::Span<const ValueId> ids) const;
  std::vector<void*> Write(absl::Span<const ValueId> ids) const;
  std::vector<const float*> ParamsOf(const Op& op);
  void RunForward(const Node& node);
  void RunSum(size_t node);
  void RunBackward(const Node& node, absl::Span<float* const> gradients);
  void RunBackwardNodes(size_t op, absl::Span<float* const> gradients);
  // The same on a device.
  void BeginOnDevice();
  void RecordOnDevice();
  ReplicaDevice::StepRun RunOnDevice() const;
  void ForwardOnDevice(size_t op, bool at_once);
  void RunBackwardOnDevice(size_t op);
  double SumOf(ValueId id) const;
  std::vector<float> Plain(const compute::Format& format, ValueId id) const;

  const Graph graph_;
  const ReplicaOptions options_;
  const std::vector<bool> wanted_;  // by tensor
  BufferPool pool_;
  Parameters params_;                      // by parameter
  std::unique_ptr<ReplicaDevice> device_;  // null: on a host
  std::map<Key, Prepared> prepared_;       // at most kPreparedMax
  std::shared_ptr<void> memory_;
  size_t memory_bytes_ = 0;

  Prepared* current_ = nullptr;
  int64_t samples_ = 0;
  StepKey key_;
  uint64_t steps_ = 0;
  size_t forward_done_ = 0;   // operators [0, forward_done_) have run forward
  size_t backward_left_ = 0;  // operators [0, backward_left_) are yet to run backward
  BufferPool::Block loss_;    // of a device's training step: [samples] f32
  bool records_ = true;       // until the device refuses
};

}  // namespace soapstone::models
