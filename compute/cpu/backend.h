// The CPU backend: oneDNN 2.6, and own loops where it has nothing.
#pragma once

#include <memory>

#include "compute/kernel.h"

namespace soapstone::compute {

struct CpuOptions {
  int threads = 1;  // a kernel's; results depend on it
};

std::unique_ptr<Backend> MakeCpuBackend(const CpuOptions& options);

}  // namespace soapstone::compute
