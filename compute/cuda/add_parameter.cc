// AddParameter on the device.
#include <memory>
#include <utility>

#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"

namespace soapstone::compute {
namespace {

class AddParameterKernel : public DeviceKernel {
 public:
  AddParameterKernel(const DeviceContext* device, KernelPlan plan, int64_t samples, int64_t n)
      : DeviceKernel(device, std::move(plan)), samples_(samples), n_(n) {}
  void RunForward(const ForwardArgs& args) override {
    AddToRows(stream(), samples_, n_, Floats(args.inputs[0]), args.params[0],
              Floats(args.outputs[0]));
  }
  void RunBackward(const BackwardArgs& args) override {
    SumColumns(stream(), samples_, n_, Floats(args.output_grads[0]), Floats(args.scratch),
               args.param_grads[0]);
    if (args.input_grads[0] == nullptr) return;
    Copy(args.output_grads[0], args.input_grads[0], plan().outputs[0].bytes);
  }

 private:
  const int64_t samples_, n_;
};

}  // namespace

PreparedKernel PrepareOn(const DeviceContext* device, const AddParameter& /*op*/,
                         const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  const int64_t samples = r.outputs[0].shape[0];
  const int64_t n = r.params[0].elements();
  plan.forward_in_place = plan.backward_in_place = true;
  plan.backward_scratch_bytes = static_cast<size_t>(ColumnPartials(samples, n)) * sizeof(float);
  return std::make_unique<AddParameterKernel>(device, std::move(plan), samples, n);
}

}  // namespace soapstone::compute
