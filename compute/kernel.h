// Kernel: one operator at one fixed shape on one backend, prepared once and run many times.
// Backend makes them: reference/ (plain loops, for tests), cpu/ (oneDNN and own loops), cuda/.
// Run by models/runtime/graph_runner.h. Knows no graph: which memory it works in is planned by its
// caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
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

// A sequence of calls, recorded once and started as one. Outlived by its backend, and by the
// kernels and the memory that the calls named.
class Recording {
 public:
  virtual ~Recording() = default;
  // As the recorded calls, but with these keys of dropout. Returns before it is done.
  virtual void Run(uint64_t step, uint64_t first_sample) = 0;
};

// A device's queues: its kernels, and copies to it and from it.
enum class Queue : uint8_t { kCompute, kToDevice, kFromDevice };
inline constexpr size_t kQueues = 3;
// Something that a queue did, in nanoseconds since Watch.
struct QueueSpan {
  Queue queue = Queue::kCompute;
  std::string name;
  int64_t begin_ns = 0, end_ns = 0;
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

  // tensor becomes zeros of `bytes`.
  virtual void Clear(void* tensor, size_t bytes) { std::memset(tensor, 0, bytes); }

  // ---- A device computes beside its caller: Forward, Backward, Clear and Import join its compute
  // queue, in order, and Import and Export wait for them. Copies beside them have two more queues.
  // Points name what has been asked of a queue; 0 is past. On a host all is done when asked for.

  // Memory of the host that the device copies to and from at full speed and while it computes. It
  // may outlive the backend.
  virtual absl::StatusOr<std::shared_ptr<void>> AllocatePinned(size_t bytes) {
    return Allocate(bytes);
  }
  // What the compute queue has been asked for so far.
  virtual uint64_t Mark() { return 0; }
  // As Import and Export, but begun when `after` is past, and beside what the compute queue is
  // asked for. Until what they return is past, `plain` (of AllocatePinned) is not to be touched,
  // nor the tensor used (Await).
  virtual uint64_t ImportAsync(const void* plain, const Format& format, void* tensor,
                               uint64_t /*after*/) {
    Import(plain, format, tensor);
    return 0;
  }
  virtual uint64_t ExportAsync(const Format& format, const void* tensor, void* plain,
                               uint64_t /*after*/) {
    Export(format, tensor, plain);
    return 0;
  }
  // What the compute queue is asked for from now on begins when `point` is past.
  virtual void Await(uint64_t /*point*/) {}
  // Returns when `point` is past; whether it is.
  virtual void Wait(uint64_t /*point*/) {}
  virtual bool Done(uint64_t /*point*/) { return true; }
  // Returns when all that was asked for is done.
  virtual void Finish() {}

  // REQUIRES: the calls have been made once before, as kernels are loaded and libraries set
  // themselves up when first used, which cannot be recorded. Records what `calls` asks for by
  // Forward, Backward and Clear; it is not run. `calls` must use `step` in all its calls, and
  // sample numbers from `first_sample` on. Error: it cannot be recorded (failed precondition).
  virtual absl::StatusOr<std::unique_ptr<Recording>> Record(uint64_t step, uint64_t first_sample,
                                                            absl::FunctionRef<void()> calls) {
    (void)step, (void)first_sample, (void)calls;
    return absl::FailedPreconditionError("this backend records nothing");
  }

  // From Watch to Unwatch: when the queues did what. Name: what the compute queue is asked for from
  // here on; copies have that of the last NameCopies. Unwatch returns when all is done; spans are
  // by queue, in their order.
  virtual void Watch() {}
  virtual void Name(std::string_view /*name*/) {}
  virtual void NameCopies(std::string_view /*name*/) {}
  virtual std::vector<QueueSpan> Unwatch() { return {}; }
};

}  // namespace soapstone::compute
