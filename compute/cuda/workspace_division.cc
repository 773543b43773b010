// One total of workspace for the convolutions of several backends that run at once.
#include <algorithm>
#include <limits>
#include <variant>

#include "base/status_macros.h"
#include "compute/cuda/convolution.h"
#include "compute/cuda/cuda_backend.h"
#include "compute/cuda/device_context.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

// An equal part is this many units of the division: few sums to carry, little lost by rounding.
constexpr size_t kUnitsOfPart = 64;

absl::StatusOr<std::vector<WorkspaceCost>> CostsOf(Backend* backend,
                                                   const std::vector<KernelRequest>& work,
                                                   size_t total, size_t unit) {
  const DeviceContext* const device = ContextOf(backend);
  CHECK(device->options.measure_algorithms && total > 0);
  SOAP_DEVICE_OR_RETURN(cudaSetDevice(device->options.device));
  std::vector<std::vector<MicrobatchPlan>> passes;
  for (const KernelRequest& request : work) {
    const Conv2d* const convolution = std::get_if<Conv2d>(&request.op);
    if (convolution == nullptr) continue;
    SOAP_ASSIGN_OR_RETURN(const std::vector<std::vector<MicrobatchPlan>> measured,
                          MeasurePasses(device, *convolution, request, total));
    passes.insert(passes.end(), measured.begin(), measured.end());
  }
  return ReuseWorkspace(passes, unit);
}

double SecondsWithin(const std::vector<WorkspaceCost>& costs, size_t bytes) {
  double seconds = std::numeric_limits<double>::infinity();
  for (const WorkspaceCost& cost : costs) {
    if (cost.bytes <= bytes) seconds = cost.seconds;
  }
  return seconds;
}

}  // namespace

absl::StatusOr<WorkspaceDivision> DivideWorkspace(
    absl::Span<const std::unique_ptr<Backend>> backends,
    absl::Span<const std::vector<KernelRequest>> work) {
  CHECK_EQ(backends.size(), work.size());
  CHECK(!backends.empty());
  const size_t total = ContextOf(backends[0].get())->options.workspace_bytes_total;
  const size_t part = total / backends.size();
  // Equal parts are of whole units, so that they are among what is chosen from.
  const size_t unit = std::max<size_t>(part / kUnitsOfPart, 1);
  std::vector<std::vector<WorkspaceCost>> costs;
  for (size_t i = 0; i < backends.size(); ++i) {
    SOAP_ASSIGN_OR_RETURN(std::vector<WorkspaceCost> of_one,
                          CostsOf(backends[i].get(), work[i], total, unit));
    costs.push_back(std::move(of_one));
  }
  SOAP_ASSIGN_OR_RETURN(const std::vector<size_t> chosen, ShareWorkspace(costs, total));
  WorkspaceDivision division;
  for (size_t i = 0; i < backends.size(); ++i) {
    const WorkspaceCost& cost = costs[i][chosen[i]];
    division.bytes.push_back(cost.bytes);
    division.divided_seconds += cost.seconds;
    division.equal_seconds += SecondsWithin(costs[i], part);
    ContextOf(backends[i].get())->options.workspace_bytes_max = cost.bytes;
  }
  return division;
}

}  // namespace soapstone::compute
