#include "apps/compute_backend.h"

#include <algorithm>

#include "apps/process_memory.h"
#include "compute/cpu/backend.h"
#include "compute/cuda/cuda_backend.h"
#include "glog/logging.h"

namespace soapstone::apps {

std::shared_ptr<compute::Backend> MakeBackend(const wire::Cluster& cluster, uint32_t rank) {
  const int devices = cluster.device() == "cpu" ? 0 : compute::CudaDeviceCount();
  if (devices > 0 || cluster.device() == "cuda") {
    absl::StatusOr<std::unique_ptr<compute::Backend>> cuda =
        compute::MakeCudaBackend({.device = static_cast<int>(rank % std::max(devices, 1))});
    if (cuda.ok()) return *std::move(cuda);
    LOG(WARNING) << "computing on the processor: " << cuda.status().message();
  }
  ReturnLargeBlocks();
  return compute::MakeCpuBackend({.threads = std::max(1, static_cast<int>(cluster.threads()))});
}

uint64_t FreeMemory(compute::Backend* backend) {
  return backend->is_device() ? compute::CudaFreeBytes(backend) : AvailableMemory();
}

}  // namespace soapstone::apps
