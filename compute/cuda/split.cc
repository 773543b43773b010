// Split on the device.
#include <memory>

#include "compute/cuda/joint_kernel.h"
#include "compute/cuda/operators.h"

namespace soapstone::compute {

PreparedKernel PrepareOn(const DeviceContext* device, const Split& op, const KernelRequest& r) {
  return std::make_unique<JointKernel>(device, PlainPlan(r),
                                       ViewOf(r.inputs[0].spec.shape, op.axis), op.sizes, false);
}

}  // namespace soapstone::compute
