// Add on the device.
#include <memory>
#include <utility>

#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"

namespace soapstone::compute {
namespace {

class AddKernel : public DeviceKernel {
 public:
  AddKernel(const DeviceContext* device, KernelPlan plan, bool relu)
      : DeviceKernel(device, std::move(plan)), relu_(relu) {}
  void RunForward(const ForwardArgs& args) override {
    float* const y = Floats(args.outputs[0]);
    for (size_t next = 0; next < args.inputs.size();) {
      TensorList list;
      if (next > 0) list.x[list.count++] = y;
      while (next < args.inputs.size() && list.count < kTensorsAtOnce) {
        list.x[list.count++] = Floats(args.inputs[next++]);
      }
      const bool last = next == args.inputs.size();
      AddTensors(stream(), list, relu_ && last, plan().outputs[0].spec.elements(), y);
    }
  }
  // Without relu all of them are one, unless the caller has them apart. The first of in-place
  // gradients is written last: it is what the others are made from.
  void RunBackward(const BackwardArgs& args) override {
    for (size_t i = args.input_grads.size(); i-- > 0;) {
      float* const dx = Floats(args.input_grads[i]);
      if (dx == nullptr) continue;
      if (!relu_) {
        Copy(args.output_grads[0], dx, plan().outputs[0].bytes);
        continue;
      }
      ActivateBackward(stream(), plan().outputs[0].spec.elements(),
                       {.kind = DeviceActivation::kRelu,
                        .source = Floats(args.outputs[0]),
                        .dy = Floats(args.output_grads[0]),
                        .dx = dx});
    }
  }

 private:
  const bool relu_;
};

}  // namespace

PreparedKernel PrepareOn(const DeviceContext* device, const Add& op, const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  plan.backward_reads_output[0] = op.relu;
  plan.forward_in_place = plan.backward_in_place = true;
  plan.backward_alias = !op.relu;
  return std::make_unique<AddKernel>(device, std::move(plan), op.relu);
}

}  // namespace soapstone::compute
