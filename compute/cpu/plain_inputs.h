// Kernels that understand plain memory alone, behind producers that leave other layouts.
#pragma once

#include <functional>
#include <memory>

#include "compute/cpu/context.h"

namespace soapstone::compute {

using PlainMake = std::function<absl::StatusOr<std::unique_ptr<Kernel>>(const KernelRequest&)>;

// What `make` gives for the request with plain inputs; where one is not, behind reorders of inputs
// and their gradients through scratch memory. Not for kernels whose plan has an alias.
absl::StatusOr<std::unique_ptr<Kernel>> WithPlainInputs(const KernelRequest& request,
                                                        const CpuContext& context,
                                                        const PlainMake& make);

}  // namespace soapstone::compute
