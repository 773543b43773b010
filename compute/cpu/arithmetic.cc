#include "compute/cpu/arithmetic.h"

#include <gnu/libc-version.h>

#include "absl/strings/str_cat.h"
#include "dnnl.hpp"

namespace soapstone::compute {
namespace {

std::string NameOf(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_amx";
    default:
      return absl::StrCat("isa ", static_cast<unsigned>(isa));
  }
}

bool HasFma() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("fma") != 0;
#else
  return true;
#endif
}

}  // namespace

absl::Status CapInstructionSet(const std::string& name) {
  if (name.empty() || name == "auto") return absl::OkStatus();
  dnnl::cpu_isa wanted = dnnl::cpu_isa::all;
  if (name == "sse41") wanted = dnnl::cpu_isa::sse41;
  if (name == "avx2") wanted = dnnl::cpu_isa::avx2;
  if (name == "avx512") wanted = dnnl::cpu_isa::avx512_core;
  if (wanted == dnnl::cpu_isa::all) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", name, "\" is none of auto, sse41, avx2 and avx512"));
  }
  // Refused where something has been computed; then what is in force may be the one all the same.
  (void)dnnl::set_max_cpu_isa(wanted);
  const dnnl::cpu_isa effective = dnnl::get_effective_cpu_isa();
  if (effective == wanted) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(name, " cannot be had in this process, which computes with ", NameOf(effective),
                   ": take what all processors of the job have"));
}

std::string FunctionsArithmetic() {
  // Of the functions there is a variant with fused multiply-add, and one without.
  return absl::StrCat("glibc ", gnu_get_libc_version(), HasFma() ? " with fma" : " without fma");
}

std::string CpuArithmetic() {
  const dnnl_version_t& version = *dnnl_version();
  return absl::StrCat(NameOf(dnnl::get_effective_cpu_isa()), ", oneDNN ", version.major, ".",
                      version.minor, ".", version.patch, ", ", FunctionsArithmetic());
}

}  // namespace soapstone::compute
