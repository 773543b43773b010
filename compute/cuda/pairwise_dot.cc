// PairwiseDot on the device.
#include <memory>
#include <utility>
#include <vector>

#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"

namespace soapstone::compute {
namespace {

class PairwiseDotKernel : public DeviceKernel {
 public:
  PairwiseDotKernel(const DeviceContext* device, KernelPlan plan, const PairwisePass& pass)
      : DeviceKernel(device, std::move(plan)), pass_(pass) {}

  void RunForward(const ForwardArgs& args) override {
    PairwiseForward(stream(), pass_, Floats(args.inputs[0]), Floats(args.outputs[0]));
  }
  void RunBackward(const BackwardArgs& args) override {
    if (args.input_grads[0] == nullptr) return;
    PairwiseBackward(stream(), pass_, Floats(args.inputs[0]), Floats(args.output_grads[0]),
                     Floats(args.input_grads[0]));
  }

 private:
  const PairwisePass pass_;
};

}  // namespace

PreparedKernel PrepareOn(const DeviceContext* device, const PairwiseDot& /*op*/,
                         const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  const std::vector<int64_t>& x = r.inputs[0].spec.shape;
  plan.backward_reads_input = {InputGradWanted(r, 0)};
  return std::make_unique<PairwiseDotKernel>(
      device, std::move(plan), PairwisePass{.samples = x[0], .vectors = x[1], .dim = x[2]});
}

}  // namespace soapstone::compute
