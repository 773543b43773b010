// In place of the backend, where it was built without CUDA.
#include "absl/status/status.h"
#include "compute/cuda/cuda_backend.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

absl::Status BuiltWithoutCuda() {
  return absl::UnavailableError(
      "built without CUDA; install the CUDA toolkit and cuDNN and build again, or compute on the "
      "cpu");
}

}  // namespace

int CudaDeviceCount() { return 0; }

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const CudaOptions& /*options*/) {
  return BuiltWithoutCuda();
}

absl::StatusOr<std::vector<std::unique_ptr<Backend>>> MakeCudaBackends(
    const CudaOptions& /*options*/, size_t /*count*/) {
  return BuiltWithoutCuda();
}

size_t CudaFreeBytes(Backend* /*backend*/) { LOG(FATAL) << BuiltWithoutCuda(); }

absl::StatusOr<WorkspaceDivision> DivideWorkspace(
    absl::Span<const std::unique_ptr<Backend>> /*backends*/,
    absl::Span<const std::vector<KernelRequest>> /*work*/) {
  return BuiltWithoutCuda();
}

void DeviceFlatten(Backend* /*backend*/, absl::Span<const DeviceSlice> /*slices*/, float* /*flat*/,
                   bool /*to_flat*/) {
  LOG(FATAL) << BuiltWithoutCuda();
}

void DeviceApply(Backend* /*backend*/, const OptimizerSpec& /*spec*/,
                 const DeviceUpdate& /*update*/) {
  LOG(FATAL) << BuiltWithoutCuda();
}

}  // namespace soapstone::compute
