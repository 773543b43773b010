// LocalResponseNorm on the device.
#include <memory>
#include <utility>

#include "compute/cuda/channel_shape.h"
#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"

namespace soapstone::compute {
namespace {

class ResponseKernel : public DeviceKernel {
 public:
  ResponseKernel(const DeviceContext* device, KernelPlan plan, const ResponsePass& pass)
      : DeviceKernel(device, std::move(plan)), pass_(pass) {}
  void RunForward(const ForwardArgs& args) override {
    ResponseForward(stream(), pass_, Floats(args.inputs[0]),
                    plan().saved_bytes > 0 ? Floats(args.saved) : nullptr, Floats(args.outputs[0]));
  }
  void RunBackward(const BackwardArgs& args) override {
    if (args.input_grads[0] == nullptr) return;
    ResponseBackward(stream(), pass_,
                     {.x = Floats(args.inputs[0]),
                      .s = Floats(args.saved),
                      .dy = Floats(args.output_grads[0]),
                      .dx = Floats(args.input_grads[0])});
  }

 private:
  const ResponsePass pass_;
};

}  // namespace

PreparedKernel PrepareOn(const DeviceContext* device, const LocalResponseNorm& op,
                         const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  plan.backward_reads_input[0] = true;
  if (r.training) plan.saved_bytes = plan.outputs[0].bytes;
  return std::make_unique<ResponseKernel>(device, std::move(plan),
                                          ResponsePass{.shape = ChannelsOf(r.outputs[0]),
                                                       .size = op.size,
                                                       .alpha = static_cast<float>(op.alpha),
                                                       .beta = static_cast<float>(op.beta),
                                                       .k = static_cast<float>(op.k)});
}

}  // namespace soapstone::compute
