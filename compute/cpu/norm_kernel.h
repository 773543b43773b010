// The kernel of batch normalization: of a whole batch, and of a part by the moments of all parts.
#pragma once

#include <memory>

#include "compute/cpu/context.h"

namespace soapstone::compute {

// counts: empty: the batch is whole, and has moments of its own.
absl::StatusOr<std::unique_ptr<Kernel>> MakeNorm(const NormalizeByMoments& op,
                                                 const KernelRequest& request,
                                                 const CpuContext& context);

}  // namespace soapstone::compute
