// Products of all pairs of vectors on the CPU: one matrix product a sample.
#pragma once

#include "compute/cpu/context.h"

namespace soapstone::compute {

absl::StatusOr<std::unique_ptr<Kernel>> MakePairwiseDot(const PairwiseDot& op,
                                                        const KernelRequest& request,
                                                        const CpuContext& context);

}  // namespace soapstone::compute
