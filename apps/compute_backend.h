// What a worker computes with, as the job says: a CUDA device or the processor. Called by the
// worker's shell.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "apps/job_config.h"
#include "compute/kernel.h"

namespace soapstone::apps {

// cluster.device: cpu (default); cuda: the device, and where there is none the processor, saying so
// in one line; auto: cuda where this machine has a device. A worker takes device `rank` modulo
// their number. cluster.threads: of the processor (default 1).
std::shared_ptr<compute::Backend> MakeBackend(const wire::Cluster& cluster, uint32_t rank);

// Bytes that a replica on this backend could take: of the device, beside all processes that use it,
// or of the machine (AvailableMemory).
uint64_t FreeMemory(compute::Backend* backend);

}  // namespace soapstone::apps
