// Replica: runs one graph on the CPU, operator by operator, so that its caller decides when a
// parameter must be there and when a gradient leaves. The worker's device thread owns one; nobody
// else calls it. Knows nothing of workers, servers or time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/buffer.h"
#include "base/ids.h"
#include "compute/kernel.h"
#include "models/graph.h"

namespace soapstone::models {

// A step is: Begin, ForwardOp of every operator in order, BackwardOp of every operator in reverse.
// (Evaluation leaves out the backward half.) Calls out of this order are CHECKed.
// Invariants:
//  1. Same graph, parameters, samples: same bits, in any process on this machine.
//  2. Gradients are summed over the samples of the step, not averaged.
//  3. BackwardOp uses the parameters as ForwardOp did: they are not to change in between.
// Threading: one thread at a time; it runs on the calling thread alone.
class Replica {
 public:
  // Prepares the kernels for one sample, so that an operator that cannot be run is an error here.
  // Parameters start at zero: their values come from the servers (or compute::InitSlice).
  static absl::StatusOr<std::unique_ptr<Replica>> Create(Graph graph);

  const Graph& graph() const { return graph_; }

  // The values of a parameter, to be written before the ForwardOp that uses them.
  // Valid as long as the replica. [elements] f32
  absl::Span<float> param(ParamId id) { return params_[Index(id)].floats(); }
  absl::Span<const float> param(ParamId id) const { return params_[Index(id)].floats(); }

  // Memory for another set of parameters of this graph, zero; and an exchange of the replica's own
  // for such a set, at no cost: so many workers of a simulation take turns on one replica.
  // REQUIRES of Swap: the same graph's set; not between a step's ForwardOp and its BackwardOp,
  // unless the step's own set is back by then.
  using Parameters = std::vector<BufferPool::Block>;
  Parameters NewParameters();
  void SwapParameters(Parameters* other);

  // Starts a step on n = labels.size() >= 1 samples; both are copied.
  // inputs: [n, sample] f32; labels: [n], each in [0, classes)
  void Begin(absl::Span<const float> inputs, absl::Span<const int32_t> labels);

  void ForwardOp(size_t op);

  // Writes (not adds) the gradients of the operator's parameters straight to where they are sent
  // from. gradients: one span of [elements] f32 for each of ops()[op].params, in that order.
  void BackwardOp(size_t op, absl::Span<const absl::Span<float>> gradients);

  // Of the step's samples; after the last ForwardOp.
  double loss_sum() const;
  int64_t correct() const;

  // The logits of the step; after the last ForwardOp. [n, classes] f32
  absl::Span<const float> logits() const;

 private:
  // Kernels for one number of samples; null where an operator needs none.
  struct Prepared {
    std::vector<std::unique_ptr<compute::Kernel>> kernels;  // by operator
    uint64_t last_step = 0;
  };

  explicit Replica(Graph graph);
  absl::StatusOr<Prepared*> Prepare(int64_t samples);
  void SizeActivations(int64_t samples);
  absl::Span<float> Activation(TensorId id) const;
  absl::Span<float> ActivationGrad(TensorId id) const;

  const Graph graph_;
  BufferPool pool_;
  Parameters params_;                           // by parameter
  std::vector<size_t> storage_;                 // by tensor: whose memory it is in (flatten)
  std::vector<BufferPool::Block> activations_;  // by storage: [samples_max, elements] f32
  std::vector<BufferPool::Block> grads_;        // by storage, likewise
  std::vector<int32_t> labels_;
  std::map<int64_t, Prepared> prepared_;  // by number of samples; at most kPreparedMax

  Prepared* current_ = nullptr;
  int64_t samples_ = 0;
  int64_t samples_max_ = 0;
  uint64_t steps_ = 0;
  size_t forward_done_ = 0;   // operators [0, forward_done_) have run forward
  size_t backward_left_ = 0;  // operators [0, backward_left_) are yet to run backward
  double loss_sum_ = 0;
  int64_t correct_ = 0;
};

}  // namespace soapstone::models
