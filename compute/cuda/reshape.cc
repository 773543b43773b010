// Reshape on the device: the same memory under another name, or a copy of it.
#include <memory>
#include <utility>

#include "compute/cuda/operators.h"

namespace soapstone::compute {
namespace {

class ReshapeKernel : public DeviceKernel {
 public:
  using DeviceKernel::DeviceKernel;
  void RunForward(const ForwardArgs& args) override {
    Copy(args.inputs[0], args.outputs[0], plan().outputs[0].bytes);
  }
  void RunBackward(const BackwardArgs& args) override {
    if (args.input_grads[0] == nullptr) return;
    Copy(args.output_grads[0], args.input_grads[0], plan().outputs[0].bytes);
  }
};

}  // namespace

PreparedKernel PrepareOn(const DeviceContext* device, const Reshape& /*op*/,
                         const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  plan.alias = plan.forward_in_place = plan.backward_in_place = true;
  return std::make_unique<ReshapeKernel>(device, std::move(plan));
}

}  // namespace soapstone::compute
