// What is computed with: a CUDA device or the processor. Called by the worker's shell, as the job
// says, and by `soapstone profile`, as its flags say.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cluster/job_config.h"
#include "compute/cuda/cuda_backend.h"
#include "compute/kernel.h"
#include "wire/message.h"

namespace soapstone::apps {

struct BackendChoice {
  std::string device = "cpu";         // or cuda: the first; cuda:N; auto: cuda where there is one
  std::string precision = "float32";  // of products' factors: tf32, bf16
  std::string convolutions = "guessed";  // algorithms: guessed, measured, or micro: also in parts
  int threads = 1;                       // of the processor
};
// Errors: invalid argument: no such choice; failed precondition: the processor does not have the
// precision; what the device says.
absl::StatusOr<std::shared_ptr<compute::Backend>> MakeChosenBackend(const BackendChoice& choice);

// Of a choice whose device is not the processor.
absl::StatusOr<compute::CudaOptions> CudaOptionsOf(const BackendChoice& choice);

// cluster.device: cpu (default); cuda: the device, and where there is none the processor, saying so
// in one line; auto: cuda where this machine has a device. A worker takes device `rank` modulo
// their number. cluster.threads: of the processor (default 1). cluster.precision as above.
// Error: the processor is taken, and does not have the precision.
absl::StatusOr<std::shared_ptr<compute::Backend>> MakeBackend(const wire::Cluster& cluster,
                                                              uint32_t rank);

// cluster.isa, for this process and from now on: before anything is computed. Errors: as
// compute::CapInstructionSet.
absl::Status ChooseInstructionSet(const wire::Cluster& cluster);
// What the bits that this node adds to the job depend on (wire::Hello::arithmetic): servers compute
// initial values, rates and updates, workers the rest.
std::string ArithmeticOf(wire::Role role, const wire::Cluster& cluster);

// Bytes that a replica on this backend could take: of the device, beside all processes that use it,
// or of the machine (AvailableMemory).
uint64_t FreeMemory(compute::Backend* backend);

}  // namespace soapstone::apps
