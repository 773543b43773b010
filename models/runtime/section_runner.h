// SectionRunner: runs one section on one backend of the host, part by part, so that its caller
// decides when a message must be there and when one leaves. Owns the section's memory, its kernels
// and the blocks of parameters that its parts read. Knows nothing of workers, servers or time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/memory/buffer.h"
#include "compute/kernel.h"
#include "models/graph/memory_plan.h"
#include "models/graph/section.h"
#include "models/graph/section_plan.h"

namespace soapstone::models {

// Kernels of one backend by what was asked for; sections that one thread runs may share theirs.
using KernelCache = std::map<std::string, std::unique_ptr<compute::Kernel>>;

// Where values lie during a run. Runners of one thread may have one together: nothing in it is kept
// from a run to the next.
struct SectionMemory {
  std::shared_ptr<void> block;
  size_t bytes = 0;
};

struct SectionOptions {
  std::shared_ptr<compute::Backend> backend;  // null: the CPU
  std::shared_ptr<KernelCache> kernels;       // of that backend; null: its own
  int threads = 1;                            // of that; bits depend on it
  uint64_t seed = 0;                          // of dropout
  bool training = true;                       // false: ForwardHalf, as in evaluation
  std::shared_ptr<SectionMemory> memory;      // null: its own
};

// Of the batch that a run is for.
struct SectionBatch {
  // By input of the model: all samples of the batch, plain.
  absl::Span<const void* const> fields;
  std::vector<std::vector<int64_t>> shapes;  // of the fields, the batch first
  uint64_t step = 0, first_sample = 0;       // dropout's keys
  int64_t counted = INT64_MAX;               // samples from there on do not count in loss and hits
};

// A run is: Begin, then every step of the section in its order: Take, Forward, Backward, Give.
// Invariants:
//  1. Same section, parameters, batch, messages: same bits, in any process on this machine.
//  2. Gradients are summed over the samples of a part.
// Threading: one thread at a time.
class SectionRunner {
 public:
  // Prepares kernels and plans the memory, which is taken in Begin. Errors: a part that no kernel
  // runs, a backend of a device (unimplemented).
  static absl::StatusOr<std::unique_ptr<SectionRunner>> Create(Section section,
                                                               SectionOptions options = {});
  // What a run would need, found without taking memory for it or for the parameters.
  static absl::StatusOr<MemoryPlan> Plan(Section section, SectionOptions options = {});
  SectionRunner(const SectionRunner&) = delete;
  SectionRunner& operator=(const SectionRunner&) = delete;

  const Section& section() const { return section_; }
  const SectionPlan& plan() const { return plan_; }
  // Of activations, gradients of activations, what kernels save, and scratch.
  const MemoryPlan& memory() const { return memory_plan_; }

  // The values of a block of parameters, to be written before parts that read it. [its shape] f32
  absl::Span<float> param(uint32_t block) { return params_[block].floats(); }

  // Errors: out of memory; InvalidArgument: a batch that has less than parts read. Ids are within
  // their tables (whoever makes batches sees to it).
  absl::Status Begin(const SectionBatch& batch);
  // REQUIRES: the size of the block. It is kept until the last step that reads it.
  void Take(uint32_t incoming, Buffer block);
  void Forward(uint32_t part);
  // Writes the gradients of the part's blocks of parameters, one span of their shape each.
  void Backward(uint32_t part, absl::Span<const absl::Span<float>> gradients);
  Buffer Give(uint32_t outgoing);

  // Of all parts that compute the loss, since Begin: sums over samples.
  double loss_sum() const { return loss_sum_; }
  double correct() const { return correct_; }
  int64_t samples() const { return samples_; }  // that count

 private:
  SectionRunner(Section section, SectionOptions options);
  absl::Status Prepare();
  absl::Status MakeKernels();
  absl::Status MakeSums();
  absl::Status CheckBatch(const SectionBatch& batch) const;
  compute::KernelRequest RequestOf(uint32_t part) const;
  absl::StatusOr<compute::Kernel*> KernelFor(const compute::KernelRequest& request);
  const compute::Format& FormatOf(uint32_t part, uint32_t slot) const {
    return kernels_[part]->plan().outputs[slot];
  }
  void* At(ValueId id) const;
  std::vector<const void*> Read(const ValueIds& ids) const;
  std::vector<void*> Write(const ValueIds& ids) const;
  std::vector<const float*> ParamsOf(const SectionPart& part) const;
  void RunStep(SectionStep::Kind kind, uint32_t index);
  void RunNode(uint32_t index);
  void RunField(const SectionNode& node);
  void RunAssemble(const SectionNode& node);
  void RunImport(const SectionNode& node);
  void RunForward(const SectionNode& node);
  void RunBackward(const SectionNode& node);
  void RunMask(const SectionNode& node);
  void RunGive(const SectionNode& node);
  void AddBox(const Box& box, ValueId source, bool gradient, const std::vector<int64_t>& to_shape,
              void* to);
  void CountLoss(const SectionPart& part, const SectionNode& node);

  const Section section_;
  const SectionOptions options_;
  const std::shared_ptr<KernelCache> made_;
  std::vector<compute::Kernel*> kernels_;  // by part
  std::vector<compute::Kernel*> sums_;     // by node; null but for kSum
  SectionPlan plan_;
  MemoryPlan memory_plan_;
  BufferPool pool_;
  std::vector<BufferPool::Block> params_;  // by block
  const std::shared_ptr<SectionMemory> memory_;
  std::vector<Buffer> taken_;  // by incoming block

  SectionBatch batch_;
  size_t next_step_ = 0;
  absl::Span<const absl::Span<float>> gradients_;  // of the part that runs backward
  BufferPool::Block given_;
  double loss_sum_ = 0, correct_ = 0;
  int64_t samples_ = 0;
};

}  // namespace soapstone::models
