// Kernel: one operator at one fixed shape on one backend, prepared once and run many times.
// Backend makes them: reference/ (plain loops, for tests), cpu/ (oneDNN and own loops), cuda/.
// Run by models/replica. Knows no graph: which memory it works in is planned by its caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compute/op.h"

namespace soapstone::compute {

// How a backend keeps a tensor: plain row-major, or a layout (and type) of its own that only it
// understands, kept between operators so that nothing is reordered without need.
struct Format {
  TensorSpec spec;
  size_t bytes = 0;                    // in memory, with padding
  std::shared_ptr<const void> layout;  // null: plain
  bool plain() const { return layout == nullptr; }
};
inline Format PlainFormat(TensorSpec spec) {
  const size_t bytes = static_cast<size_t>(spec.bytes());
  return {.spec = std::move(spec), .bytes = bytes, .layout = nullptr};
}

// What is to be prepared. Parameters and their gradients are always plain f32.
struct KernelRequest {
  Operator op;
  std::string name;            // for messages
  std::vector<Format> inputs;  // as the producers left them
  std::vector<TensorSpec> params;
  std::vector<TensorSpec> outputs;
  bool training = true;                  // false: Forward alone, as in evaluation
  std::vector<bool> input_grads_wanted;  // by input; empty: none
  uint64_t seed = 0;                     // dropout's, of the job
  uint32_t op_index = 0;                 // dropout's key
};

// What the caller must give the kernel. The gradient of a tensor has the tensor's own format.
struct KernelPlan {
  std::vector<Format> outputs;
  size_t saved_bytes = 0;  // written by Forward for Backward (statistics, choices, gates)
  size_t forward_scratch_bytes = 0;
  size_t backward_scratch_bytes = 0;
  // What Backward reads besides parameters, output gradients and `saved`; what it does not read
  // may be overwritten by then.
  std::vector<bool> backward_reads_input;   // by input
  std::vector<bool> backward_reads_output;  // by output
  // Forward may be given outputs[0] == inputs[0], Backward input_grads[0] == output_grads[0]. Only
  // for tensors of the same bytes.
  bool forward_in_place = false;
  bool backward_in_place = false;
  // outputs[0] is inputs[0] under another shape (reshape): Forward and Backward do nothing.
  bool alias = false;
  // input_grads[i] is output_grads[0], for all i (add): Backward does nothing.
  bool backward_alias = false;
};

// Pointers into the backend's memory (the device's, for cuda), 64-byte aligned.
struct ForwardArgs {
  absl::Span<const void* const> inputs;
  absl::Span<const float* const> params;
  absl::Span<void* const> outputs;
  void* saved = nullptr;
  void* scratch = nullptr;
  uint64_t step = 0;          // dropout's key
  uint64_t first_sample = 0;  // of the mini-batch, in the global batch: dropout's key
};

// For a loss L: *_grad is ∂L/∂(*), summed over the samples. All are written, never added to.
struct BackwardArgs {
  absl::Span<const void* const> inputs;  // null where the plan says that it is not read
  absl::Span<const float* const> params;
  absl::Span<const void* const> outputs;       // null likewise
  absl::Span<const void* const> output_grads;  // the loss has none: its L is the sum of its output
  absl::Span<void* const> input_grads;         // null where it is not wanted
  absl::Span<float* const> param_grads;        // one each of params
  void* saved = nullptr;
  void* scratch = nullptr;
  uint64_t step = 0;
  uint64_t first_sample = 0;
};

// Invariant: the same inputs give the same bits in every process on one machine, given the same
// number of threads. Threading: one thread at a time. Keeps no pointer of a call.
// Backward follows the Forward whose tensors it names.
class Kernel {
 public:
  explicit Kernel(KernelPlan plan) : plan_(std::move(plan)) {}
  virtual ~Kernel() = default;
  const KernelPlan& plan() const { return plan_; }
  virtual void Forward(const ForwardArgs& args) = 0;
  virtual void Backward(const BackwardArgs& args) = 0;

 private:
  const KernelPlan plan_;
};

// Makes kernels that work together: they understand each other's formats. Owns the device's queue;
// outlives its kernels.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // "reference", "cpu", "cuda"
  // Error: this backend cannot run it on this machine, naming the operator.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) = 0;
  // Memory that its kernels work in, 64-byte aligned; of the host unless is_device(). It is the
  // caller's to keep what runs in it alive.
  virtual absl::StatusOr<std::shared_ptr<void>> Allocate(size_t bytes) = 0;
  virtual bool is_device() const { return false; }
  // To and from plain memory of the host; done when it returns. Sizes are those of the format and
  // of its spec.
  virtual void Import(const void* plain, const Format& format, void* tensor) = 0;
  virtual void Export(const Format& format, const void* tensor, void* plain) = 0;

  // Memory of the host that the device copies to and from at full speed and while it computes;
  // otherwise as Allocate of a backend of the host.
  virtual absl::StatusOr<std::shared_ptr<void>> AllocatePinned(size_t bytes) {
    return Allocate(bytes);
  }
  // Export that goes on beside the calls that follow, of what those before it have written. The
  // tensor is not to be written and `plain` (of AllocatePinned) not to be touched until Wait with
  // what this returns. Done: whether Wait would return at once.
  virtual uint64_t ExportAsync(const Format& format, const void* tensor, void* plain) {
    Export(format, tensor, plain);
    return 0;
  }
  virtual void Wait(uint64_t /*transfer*/) {}
  virtual bool Done(uint64_t /*transfer*/) { return true; }
  // Returns when all that was asked for has been computed. Forward and Backward of a device may
  // return before.
  virtual void Finish() {}
};

}  // namespace soapstone::compute
