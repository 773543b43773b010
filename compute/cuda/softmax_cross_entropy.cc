// SoftmaxCrossEntropy on the device.
#include <algorithm>
#include <memory>
#include <utility>

#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"

namespace soapstone::compute {
namespace {

class LossKernel : public DeviceKernel {
 public:
  LossKernel(const DeviceContext* device, KernelPlan plan, const LossPass& pass, bool training)
      : DeviceKernel(device, std::move(plan)), pass_(pass), training_(training) {}

  static LossPass Place(LossPass pass, DeviceSections* saved, DeviceSections* scratch) {
    const int64_t rows = pass.samples * pass.places;
    pass.log_sum = saved->Take<float>(rows);
    pass.inverse = saved->Take<float>(pass.samples);
    if (scratch == nullptr) return pass;
    pass.row_loss = scratch->Take<float>(rows);
    pass.row_hit = scratch->Take<float>(rows);
    return pass;
  }

  void RunForward(const ForwardArgs& args) override {
    DeviceSections saved(args.saved), scratch(args.scratch);
    LossPass pass = Place(pass_, training_ ? &saved : &scratch, &scratch);
    pass.logits = Floats(args.inputs[0]);
    pass.labels = static_cast<const int32_t*>(args.inputs[1]);
    LossForward(stream(), pass, Floats(args.outputs[0]), Floats(args.outputs[1]));
  }

  void RunBackward(const BackwardArgs& args) override {
    if (args.input_grads[0] == nullptr) return;
    DeviceSections saved(args.saved);
    LossPass pass = Place(pass_, &saved, nullptr);
    pass.logits = Floats(args.inputs[0]);
    pass.labels = static_cast<const int32_t*>(args.inputs[1]);
    LossBackward(stream(), pass, Floats(args.input_grads[0]));
  }

 private:
  const LossPass pass_;
  const bool training_;
};

}  // namespace

PreparedKernel PrepareOn(const DeviceContext* device, const SoftmaxCrossEntropy& /*op*/,
                         const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  const TensorSpec& logits = r.inputs[0].spec;
  LossPass pass;
  pass.samples = logits.shape[0];
  pass.classes = logits.shape.back();
  pass.places = r.inputs[1].spec.elements() / std::max<int64_t>(pass.samples, 1);
  plan.backward_reads_input = {true, true};
  DeviceSections saved(nullptr), scratch(nullptr);
  LossKernel::Place(pass, r.training ? &saved : &scratch, &scratch);
  plan.saved_bytes = saved.bytes();
  plan.forward_scratch_bytes = scratch.bytes();
  return std::make_unique<LossKernel>(device, std::move(plan), pass, r.training);
}

}  // namespace soapstone::compute
