// Activation on the device.
#include <memory>
#include <utility>

#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"

namespace soapstone::compute {
namespace {

DeviceActivation KindOf(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kRelu:
      return DeviceActivation::kRelu;
    case ActivationKind::kTanh:
      return DeviceActivation::kTanh;
    case ActivationKind::kSigmoid:
      return DeviceActivation::kSigmoid;
    case ActivationKind::kGelu:
      return DeviceActivation::kGelu;
  }
  return DeviceActivation::kRelu;
}

class ActivationKernel : public DeviceKernel {
 public:
  ActivationKernel(const DeviceContext* device, KernelPlan plan, DeviceActivation kind)
      : DeviceKernel(device, std::move(plan)), kind_(kind) {}
  void RunForward(const ForwardArgs& args) override {
    ActivateForward(stream(), kind_, elements(), Floats(args.inputs[0]), Floats(args.outputs[0]));
  }
  void RunBackward(const BackwardArgs& args) override {
    if (args.input_grads[0] == nullptr) return;
    const bool of_input = kind_ == DeviceActivation::kGelu;
    ActivateBackward(stream(), elements(),
                     {.kind = kind_,
                      .source = Floats(of_input ? args.inputs[0] : args.outputs[0]),
                      .dy = Floats(args.output_grads[0]),
                      .dx = Floats(args.input_grads[0])});
  }

 private:
  int64_t elements() const { return plan().outputs[0].spec.elements(); }
  const DeviceActivation kind_;
};

}  // namespace

PreparedKernel PrepareOn(const DeviceContext* device, const Activation& op,
                         const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  const bool of_input = op.kind == ActivationKind::kGelu;
  plan.backward_reads_input[0] = of_input;
  plan.backward_reads_output[0] = !of_input;
  plan.forward_in_place = !of_input || !r.training;
  plan.backward_in_place = true;
  return std::make_unique<ActivationKernel>(device, std::move(plan), KindOf(op.kind));
}

}  // namespace soapstone::compute
