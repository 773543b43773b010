// BatchMoments: of sections, which run on hosts.
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compute/cuda/operators.h"

namespace soapstone::compute {

PreparedKernel PrepareOn(const DeviceContext* /*device*/, const BatchMoments& /*op*/,
                         const KernelRequest& r) {
  return absl::UnimplementedError(
      absl::StrCat(r.name, ": parts of batch norm are computed on the processor alone"));
}

}  // namespace soapstone::compute
