#include "apps/node/compute_backend.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "apps/report/process_memory.h"
#include "base/memory/memory_limit.h"
#include "base/status_macros.h"
#include "compute/cpu/arithmetic.h"
#include "compute/cpu/backend.h"
#include "glog/logging.h"

namespace soapstone::apps {
namespace {

absl::StatusOr<compute::CudaPrecision> CudaPrecisionOf(const std::string& name) {
  if (name.empty() || name == "float32") return compute::CudaPrecision::kFloat32;
  if (name == "tf32") return compute::CudaPrecision::kTf32;
  if (name == "bf16") return compute::CudaPrecision::kBf16;
  return absl::InvalidArgumentError(
      absl::StrCat("precision \"", name, "\" is none of float32, tf32 and bf16"));
}

absl::StatusOr<compute::CpuPrecision> CpuPrecisionOf(const std::string& name) {
  SOAP_ASSIGN_OR_RETURN(const compute::CudaPrecision known, CudaPrecisionOf(name));
  if (known == compute::CudaPrecision::kFloat32) return compute::CpuPrecision::kFloat32;
  if (known == compute::CudaPrecision::kTf32) {
    return absl::FailedPreconditionError(
        "precision tf32: processors do not have it; take float32 or bf16");
  }
  SOAP_RETURN_IF_ERROR(compute::CheckCpuPrecision(compute::CpuPrecision::kBf16));
  return compute::CpuPrecision::kBf16;
}

// cuda, cuda:N
absl::StatusOr<int> OrdinalOf(absl::string_view device) {
  absl::string_view digits = device;
  int ordinal = 0;
  if (device == "cuda" || device == "auto") return 0;
  if (absl::ConsumePrefix(&digits, "cuda:") && absl::SimpleAtoi(digits, &ordinal)) return ordinal;
  return absl::InvalidArgumentError(
      absl::StrCat("device \"", device, "\" is none of cpu, cuda, cuda:N and auto"));
}

absl::Status SetConvolutions(const std::string& how, compute::CudaOptions* options) {
  if (how != "guessed" && how != "measured" && how != "micro") {
    return absl::InvalidArgumentError(
        absl::StrCat("convolutions \"", how, "\" are none of guessed, measured and micro"));
  }
  options->measure_algorithms = how != "guessed";
  options->micro_batches = how != "measured";
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<compute::CudaOptions> CudaOptionsOf(const BackendChoice& choice) {
  compute::CudaOptions options;
  SOAP_ASSIGN_OR_RETURN(options.device, OrdinalOf(choice.device));
  SOAP_ASSIGN_OR_RETURN(options.precision, CudaPrecisionOf(choice.precision));
  SOAP_RETURN_IF_ERROR(SetConvolutions(choice.convolutions, &options));
  return options;
}

absl::StatusOr<std::shared_ptr<compute::Backend>> MakeChosenBackend(const BackendChoice& choice) {
  if (choice.device != "cpu") {
    SOAP_ASSIGN_OR_RETURN(const compute::CudaOptions options, CudaOptionsOf(choice));
    if (choice.device != "auto" || compute::CudaDeviceCount() > 0) {
      SOAP_ASSIGN_OR_RETURN(std::unique_ptr<compute::Backend> cuda,
                            compute::MakeCudaBackend(options));
      return std::shared_ptr<compute::Backend>(std::move(cuda));
    }
  }
  SOAP_ASSIGN_OR_RETURN(const compute::CpuPrecision precision, CpuPrecisionOf(choice.precision));
  ReturnLargeBlocks();
  return compute::MakeCpuBackend({.threads = choice.threads, .precision = precision});
}

absl::StatusOr<std::shared_ptr<compute::Backend>> MakeBackend(const wire::Cluster& cluster,
                                                              uint32_t rank) {
  BackendChoice choice = {.precision = cluster.precision(),
                          .threads = std::max(1, static_cast<int>(cluster.threads()))};
  const int devices = cluster.device() == "cpu" ? 0 : compute::CudaDeviceCount();
  if (devices > 0 || cluster.device() == "cuda") {
    choice.device = absl::StrCat("cuda:", static_cast<int>(rank) % std::max(devices, 1));
    absl::StatusOr<std::shared_ptr<compute::Backend>> cuda = MakeChosenBackend(choice);
    if (cuda.ok()) return cuda;
    LOG(WARNING) << "computing on the processor: " << cuda.status().message();
    choice.device = "cpu";
  }
  return MakeChosenBackend(choice);
}

absl::Status ChooseInstructionSet(const wire::Cluster& cluster) {
  absl::Status chosen = compute::CapInstructionSet(cluster.isa());
  if (chosen.ok()) return chosen;
  return {chosen.code(), absl::StrCat("cluster.isa: ", chosen.message())};
}

std::string ArithmeticOf(wire::Role role, const wire::Cluster& cluster) {
  if (role != wire::Role::kWorker) return compute::FunctionsArithmetic();
  if (cluster.device() != "cpu" && compute::CudaDeviceCount() > 0) return "cuda";
  return compute::CpuArithmetic();
}

uint64_t FreeMemory(compute::Backend* backend) {
  return backend->is_device() ? compute::CudaFreeBytes(backend) : AvailableMemory();
}

}  // namespace soapstone::apps
