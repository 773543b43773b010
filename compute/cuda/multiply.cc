// Multiply on the device.
#include <memory>
#include <utility>

#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"

namespace soapstone::compute {
namespace {

class MultiplyKernel : public DeviceKernel {
 public:
  using DeviceKernel::DeviceKernel;
  void RunForward(const ForwardArgs& args) override {
    Product(args.inputs[0], args.inputs[1], args.outputs[0]);
  }
  void RunBackward(const BackwardArgs& args) override {
    for (size_t i = 2; i-- > 0;) {  // the first may be in place
      if (args.input_grads[i] == nullptr) continue;
      Product(args.output_grads[0], args.inputs[1 - i], args.input_grads[i]);
    }
  }

 private:
  void Product(const void* a, const void* b, void* y) {
    MultiplyTensors(stream(), plan().outputs[0].spec.elements(), Floats(a), Floats(b), Floats(y));
  }
};

}  // namespace

PreparedKernel PrepareOn(const DeviceContext* device, const Multiply& /*op*/,
                         const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  plan.backward_reads_input = {true, true};
  plan.forward_in_place = !r.training;
  plan.backward_in_place = true;
  return std::make_unique<MultiplyKernel>(device, std::move(plan));
}

}  // namespace soapstone::compute
