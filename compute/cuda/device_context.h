// What the kernels of one cuda backend share: its stream, the libraries' handles, and how failures
// of their calls are told. Inside compute/cuda/ only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "compute/cuda/cuda_backend.h"
#include "compute/cuda/libraries.h"
#include "compute/microbatch.h"
#include "glog/logging.h"

namespace soapstone::compute {

// Of Prepare: the failed call as a Status. Of Forward and Backward: fatal, since a device that
// fails does not come back and what it was to compute is lost.
absl::Status DeviceStatus(const char* call, cudaError_t error);
absl::Status DeviceStatus(const char* call, cublasStatus_t error);
absl::Status DeviceStatus(const char* call, cudnnStatus_t error);

// Fatal, unless this thread records: then the recording has failed, not the device.
void DieOfCall(const absl::Status& failure);

// `call` as in SOAP_DEVICE_OR_RETURN(cudaMalloc(&p, n));
#define SOAP_DEVICE_OR_RETURN(call) SOAP_RETURN_IF_ERROR(DeviceStatus(#call, call))
#define SOAP_DEVICE_OR_DIE(call)                                       \
  do {                                                                 \
    const absl::Status soap_device_status = DeviceStatus(#call, call); \
    if (!soap_device_status.ok()) DieOfCall(soap_device_status);       \
  } while (false)

// What was measured for convolutions, by their shape: models repeat them, and replicas of a model
// do, which are to take the same algorithms. Threading: any; one measures at a time, so that none
// is timed beside another.
class MeasuredConvolutions {
 public:
  using Options = std::vector<MicrobatchOption>;
  // Those of `key` measured with at least this limit of workspace, or what `measure` returns now.
  absl::StatusOr<Options> Get(const std::string& key, size_t limit_bytes,
                              absl::FunctionRef<absl::StatusOr<Options>()> measure) {
    MutexLock lock(&mutex_);
    const auto found = by_key_.find(key);
    if (found != by_key_.end() && found->second.limit_bytes >= limit_bytes) {
      return found->second.options;
    }
    SOAP_ASSIGN_OR_RETURN(Options options, measure());
    by_key_[key] = {limit_bytes, options};
    return options;
  }

 private:
  struct Measured {
    size_t limit_bytes = 0;
    Options options;
  };
  Mutex mutex_;
  std::map<std::string, Measured> by_key_ ABSL_GUARDED_BY(mutex_);
};

// Owned by the backend. Threading: one thread at a time.
struct DeviceContext {
  CudaOptions options;
  cudaStream_t stream = nullptr;
  cublasHandle_t cublas = nullptr;
  cudnnHandle_t cudnn = nullptr;
  const DeviceLibraries* libraries = nullptr;
  std::shared_ptr<MeasuredConvolutions> measured;  // of all backends made together

  // Dropout's keys of a recorded step are read when it runs: keys[0] = step, keys[1] =
  // first_sample, in memory of the device. While recording, else null; then what the recorded calls
  // say counts from these.
  const uint64_t* keys = nullptr;
  uint64_t recorded_step = 0;
  uint64_t recorded_first_sample = 0;
};

// Of a backend of MakeCudaBackend; others are CHECKed.
DeviceContext* ContextOf(Backend* backend);

// Sections of one block of memory, each 256-byte aligned. With a null base it only adds up.
class DeviceSections {
 public:
  explicit DeviceSections(void* base) : base_(static_cast<char*>(base)) {}
  template <typename T>
  T* Take(int64_t count) {
    T* section = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + bytes_);
    bytes_ += (static_cast<size_t>(count) * sizeof(T) + 255) / 256 * 256;
    return section;
  }
  size_t bytes() const { return bytes_; }

 private:
  char* base_;
  size_t bytes_ = 0;
};

}  // namespace soapstone::compute
