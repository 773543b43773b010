#pragma once

#include <memory>

#include "compute/cpu/context.h"

namespace soapstone::compute {

absl::StatusOr<std::unique_ptr<Kernel>> MakePool(const Pool& op, const KernelRequest& request,
                                                 const CpuContext& context);

}  // namespace soapstone::compute
