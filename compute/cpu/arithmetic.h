// What the bits of this process's sums depend on besides the numbers: the instruction set that
// oneDNN chooses its kernels by, its version, and the C library's elementary functions. Our own
// loops give the same bits at every width (base/vectors.h).
//
// Set once when the process starts, by its main; said to the scheduler, which under bsp takes no
// two workers that differ (docs/consistency.md).
#pragma once

#include <string>

#include "absl/status/status.h"

namespace soapstone::compute {

// No more than sse41, avx2 or avx512 is used from now on, whatever the environment says; auto, or
// empty: what the processor has. Errors: invalid argument: no such name; failed precondition: the
// processor has less, or something has been computed already, with more or less.
absl::Status CapInstructionSet(const std::string& name);

// Of the elementary functions, such as "glibc 2.36 with fma".
std::string FunctionsArithmetic();
// Of kernels, and functions: "avx2, oneDNN 2.6.3, glibc 2.36 with fma". The cap is final after it.
std::string CpuArithmetic();

}  // namespace soapstone::compute
