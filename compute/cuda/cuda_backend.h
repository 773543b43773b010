// The backend of NVIDIA devices: cuDNN for convolutions, cuBLAS for matrix products, kernels of our
// own for the rest. In a build without CUDA (absent.cc) it can be asked for, and says so. No type
// of CUDA is named here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
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
  // Convolutions take the algorithms and micro-batches that are fastest when tried. They may then
  // differ between processes, and with them the last bits; without, cuDNN's own guess is taken.
  bool measure_algorithms = false;
};

// Devices that a driver offers; 0 without driver or in a build without CUDA.
int CudaDeviceCount();

// Errors: unavailable: no CUDA in this build, no driver, no device, a library that is not there;
// invalid argument: no such ordinal, a negative one; failed precondition: a device that is too old.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const CudaOptions& options);

// A sequence of calls, recorded once and started as one. Outlived by its backend and by all memory
// that the calls named.
class StepGraph {
 public:
  virtual ~StepGraph() = default;
  // As the recorded calls, but with these keys of dropout. Returns before it is done.
  virtual void Run(uint64_t step, uint64_t first_sample) = 0;
};
// REQUIRES: the calls have been run once before, as kernels are loaded and libraries set themselves
// up when first used, which cannot be recorded. Records what `calls` asks of `backend` (of
// MakeCudaBackend) through Forward, Backward and DeviceApply; they are not run. `calls` must use
// `step` in all its calls, and sample numbers from `first_sample` on; Import, Export, Wait and
// Finish are not allowed in it. Error: the driver cannot record it (failed precondition).
absl::StatusOr<std::unique_ptr<StepGraph>> RecordStep(Backend* backend, uint64_t step,
                                                      uint64_t first_sample,
                                                      absl::FunctionRef<void()> calls);

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
