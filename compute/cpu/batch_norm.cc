#include "compute/cpu/batch_norm.h"

#include "compute/cpu/norm_kernel.h"

namespace soapstone::compute {

absl::StatusOr<std::unique_ptr<Kernel>> MakeBatchNorm(const BatchNorm& op,
                                                      const KernelRequest& request,
                                                      const CpuContext& context) {
  return MakeNorm({.epsilon = op.epsilon, .relu = op.relu}, request, context);
}

}  // namespace soapstone::compute
