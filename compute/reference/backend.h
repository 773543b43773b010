// The reference backend: every operator in plain loops with sums in double, for tests. Other
// backends are compared with it, case by case (compute/testing/operator_cases.h). All formats are
// plain, in the host's memory. Unlike other kernels its own allocate for every call, keep nothing
// in `saved` (Backward computes again what it needs), and are in no hurry.
#pragma once

#include <memory>

#include "compute/kernel.h"

namespace soapstone::compute {

std::unique_ptr<Backend> MakeReferenceBackend();

}  // namespace soapstone::compute
