// The backend of NVIDIA devices: cuDNN for convolutions, cuBLAS for matrix products, kernels of our
// own for the rest. In a build without CUDA (absent.cc) it can be asked for, and says so. No type
// of CUDA is named here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compute/kernel.h"
#include "compute/optimizer.h"

namespace soapstone::compute {

// Tensors are float32 between operators always. kTf32, kBf16: what matrix products and convolutions
// round their factors to (10 and 7 bits of mantissa); sums are float32.
enum class CudaPrecision : uint8_t { kFloat32, kTf32, kBf16 };

struct CudaOptions {
  int device = 0;  // its ordinal
  CudaPrecision precision = CudaPrecision::kFloat32;
  size_t workspace_bytes_max = size_t{64} << 20;  // of one convolution
  // Of backends that are made together the convolutions run at the same time, each in a workspace
  // of its backend's: not 0, this is the limit of all of those, and each has an equal part for its
  // workspace_bytes_max, or what DivideWorkspace gives it.
  size_t workspace_bytes_total = 0;
  // Convolutions take the algorithms and micro-batches that are fastest when tried. They may then
  // differ between processes, and with them the last bits; without, cuDNN's own guess is taken.
  bool measure_algorithms = false;
  // Of convolutions; without, each is one call for the whole mini-batch.
  bool micro_batches = true;
};

// Devices that a driver offers; 0 without driver or in a build without CUDA.
int CudaDeviceCount();

// Errors: unavailable: no CUDA in this build, no driver, no device, a library that is not there;
// invalid argument: no such ordinal, a negative one; failed precondition: a device that is too old.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const CudaOptions& options);

// Several on one device, for replicas that run at once, each on a thread. They share the process'
// context and libraries, and what one of them measures, so that with equal limits they take the
// same algorithms; each has its own streams, handles and workspaces (32 MiB of cuBLAS).
// REQUIRES: count >= 1.
absl::StatusOr<std::vector<std::unique_ptr<Backend>>> MakeCudaBackends(const CudaOptions& options,
                                                                       size_t count);

// Of the device's memory what none of the processes that share it has taken.
size_t CudaFreeBytes(Backend* backend);

// Divides workspace_bytes_total among backends that were made together, so that the sum of the
// measured times of all their convolutions is least (compute/microbatch.h): within a backend each
// kernel reuses its workspace, between them they are apart. Their kernels are prepared afterwards.
struct WorkspaceDivision {
  std::vector<size_t> bytes;   // by backend: its limit from now on
  double equal_seconds = 0;    // of one step of each, all convolutions one after another, with
                               // equal parts of the total; infinite: one does not fit
  double divided_seconds = 0;  // and with `bytes`: never more
};
// work[i]: what backends[i] will prepare for a step; only its convolutions count. REQUIRES:
// options.measure_algorithms and a total. Errors: resource exhausted: the least that each needs
// does not fit into the total; what cuDNN says.
absl::StatusOr<WorkspaceDivision> DivideWorkspace(
    absl::Span<const std::unique_ptr<Backend>> backends,
    absl::Span<const std::vector<KernelRequest>> work);

// A place in device memory: [n] f32.
struct DeviceSlice {
  const float* data = nullptr;
  int64_t n = 0;
};
// Copies the slices one behind the other to flat [Σ n] (`to_flat`) or from there to them.
void DeviceFlatten(Backend* backend, absl::Span<const DeviceSlice> slices, float* flat,
                   bool to_flat);

// ApplyGradient (optimizer.h) on flat buffers of the device, [n] each, with the same bits. first
// and second: null where the optimizer has none; zero at the start. steps: gradients applied, this
// one counted.
struct DeviceUpdate {
  Update update;
  int64_t n = 0;
  int64_t steps = 1;
  const float* gradient = nullptr;
  float* param = nullptr;
  float* first = nullptr;
  float* second = nullptr;
};
void DeviceApply(Backend* backend, const OptimizerSpec& spec, const DeviceUpdate& update);

}  // namespace soapstone::compute
