#pragma once

#include <memory>

#include "compute/cpu/context.h"

namespace soapstone::compute {

absl::StatusOr<std::unique_ptr<Kernel>> MakeBatchMoments(const BatchMoments& op,
                                                         const KernelRequest& request,
                                                         const CpuContext& context);

}  // namespace soapstone::compute
