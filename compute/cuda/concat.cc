// Concat on the device.
#include <memory>
#include <utility>
#include <vector>

#include "compute/cuda/joint_kernel.h"
#include "compute/cuda/operators.h"

namespace soapstone::compute {

PreparedKernel PrepareOn(const DeviceContext* device, const Concat& op, const KernelRequest& r) {
  std::vector<int64_t> sizes;
  for (const Format& input : r.inputs) {
    sizes.push_back(input.spec.shape[static_cast<size_t>(op.axis)]);
  }
  return std::make_unique<JointKernel>(device, PlainPlan(r), ViewOf(r.outputs[0].shape, op.axis),
                                       std::move(sizes), true);
}

}  // namespace soapstone::compute
