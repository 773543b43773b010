#include "compute/cpu/normalize_by_moments.h"

#include "compute/cpu/norm_kernel.h"

namespace soapstone::compute {

absl::StatusOr<std::unique_ptr<Kernel>> MakeNormalizeByMoments(const NormalizeByMoments& op,
                                                               const KernelRequest& request,
                                                               const CpuContext& context) {
  return MakeNorm(op, request, context);
}

}  // namespace soapstone::compute
