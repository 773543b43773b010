// What all kernels of the CPU backend share: oneDNN's engine and stream, the number of threads, and
// how a loop is divided among them. Owned by the backend, which outlives its kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "compute/cpu/backend.h"
#include "compute/kernel.h"
#include "dnnl.hpp"

namespace soapstone::compute {

struct CpuContext {
  explicit CpuContext(const CpuOptions& options);
  CpuContext(const CpuContext&) = delete;
  CpuContext& operator=(const CpuContext&) = delete;

  const dnnl::engine engine;
  const dnnl::stream stream;
  const int threads;
  const CpuPrecision precision;

  // Of the factors of large products.
  dnnl::memory::data_type factor_type() const {
    return precision == CpuPrecision::kBf16 ? dnnl::memory::data_type::bf16
                                            : dnnl::memory::data_type::f32;
  }
};

// oneDNN splits work, and so orders its sums, by the number of OpenMP threads. For its life the
// calling thread has `threads`, whatever OMP_NUM_THREADS says.
class CpuThreads {
 public:
  explicit CpuThreads(int threads);
  ~CpuThreads();
  CpuThreads(const CpuThreads&) = delete;
  CpuThreads& operator=(const CpuThreads&) = delete;

 private:
  const int before_;
};

// Calls body(begin, end) for parts of [0, n), one a thread at most, each of at least `grain` of n.
// Which part begins where is a function of n, grain and the number of threads alone.
// A body is best a call of a function that SOAPSTONE_EACH_VECTOR_WIDTH stands before.
using ParallelBody = std::function<void(int64_t begin, int64_t end)>;
void ParallelFor(const CpuContext& context, int64_t n, int64_t grain, const ParallelBody& body);

// Base of the kernels here: sets the number of threads for a call, and ends the process where
// oneDNN throws (what it refuses, it refuses when it is prepared).
class CpuKernel : public Kernel {
 public:
  CpuKernel(KernelPlan plan, const CpuContext& context)
      : Kernel(std::move(plan)), context_(context) {}
  void Forward(const ForwardArgs& args) final;
  void Backward(const BackwardArgs& args) final;

 protected:
  virtual void RunForward(const ForwardArgs& args) = 0;
  virtual void RunBackward(const BackwardArgs& args) = 0;
  const CpuContext& context() const { return context_; }

 private:
  const CpuContext& context_;
};

// Runs `make`; what oneDNN throws becomes a Status with the request's operator and name.
absl::StatusOr<std::unique_ptr<Kernel>> GuardedMake(
    const KernelRequest& request, const CpuContext& context,
    const std::function<std::unique_ptr<Kernel>()>& make);

// Memory that the caller of a kernel gives as one piece, laid out when the kernel is prepared: each
// part begins at a multiple of 64 bytes.
class Arena {
 public:
  // A part of `bytes`; the number is its offset.
  size_t Take(size_t bytes) {
    const size_t offset = bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return offset;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};
template <typename T = float>
T* At(void* arena, size_t offset) {
  return reinterpret_cast<T*>(static_cast<char*>(arena) + offset);
}

inline bool GradWanted(const KernelRequest& request, size_t input) {
  return request.training && input < request.input_grads_wanted.size() &&
         request.input_grads_wanted[input];
}

}  // namespace soapstone::compute
