// Dropout on the device: the same elements as on the host, by the same generator.
#include <algorithm>
#include <memory>
#include <utility>

#include "base/random.h"
#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"
#include "compute/dropout_mask.h"

namespace soapstone::compute {
namespace {

class DropoutKernel : public DeviceKernel {
 public:
  DropoutKernel(const DeviceContext* device, KernelPlan plan, const DropoutPass& pass)
      : DeviceKernel(device, std::move(plan)), pass_(pass) {}
  void RunForward(const ForwardArgs& args) override {
    Run(args.step, args.first_sample, args.inputs[0], args.outputs[0]);
  }
  void RunBackward(const BackwardArgs& args) override {
    if (args.input_grads[0] == nullptr) return;
    Run(args.step, args.first_sample, args.output_grads[0], args.input_grads[0]);
  }

 private:
  void Run(uint64_t step, uint64_t first_sample, const void* from, void* to) {
    if (plan().alias) return Copy(from, to, plan().outputs[0].bytes);
    DropoutPass pass = pass_;
    pass.keys = context().keys;
    pass.step = step - (pass.keys != nullptr ? context().recorded_step : 0);
    pass.first_sample = first_sample - (pass.keys != nullptr ? context().recorded_first_sample : 0);
    DropoutElements(stream(), pass, Floats(from), Floats(to));
  }
  const DropoutPass pass_;
};

}  // namespace

PreparedKernel PrepareOn(const DeviceContext* device, const Dropout& op, const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  plan.alias = !r.training || op.rate == 0;
  plan.forward_in_place = plan.backward_in_place = true;
  const TensorSpec& spec = r.outputs[0];
  DropoutPass pass;
  pass.seed = r.seed;
  pass.use = static_cast<uint32_t>(RandomUse::kDropout);
  pass.op_index = r.op_index;
  pass.threshold = DropoutThreshold(op.rate);
  pass.scale = static_cast<float>(1 / (1 - op.rate));
  pass.samples = spec.shape[0];
  pass.elements = spec.elements() / std::max<int64_t>(spec.shape[0], 1);
  return std::make_unique<DropoutKernel>(device, std::move(plan), pass);
}

}  // namespace soapstone::compute
