// Embedding on the device.
#include <memory>
#include <utility>

#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"

namespace soapstone::compute {
namespace {

class EmbeddingKernel : public DeviceKernel {
 public:
  EmbeddingKernel(const DeviceContext* device, KernelPlan plan, const EmbeddingPass& pass)
      : DeviceKernel(device, std::move(plan)), pass_(pass) {}
  void RunForward(const ForwardArgs& args) override {
    EmbeddingForward(stream(), PassOf(args.inputs[0]), args.params[0], Floats(args.outputs[0]));
  }
  void RunBackward(const BackwardArgs& args) override {
    EmbeddingBackward(stream(), PassOf(args.inputs[0]), Floats(args.output_grads[0]),
                      args.param_grads[0]);
  }

 private:
  EmbeddingPass PassOf(const void* ids) const {
    EmbeddingPass pass = pass_;
    pass.ids = static_cast<const int32_t*>(ids);
    return pass;
  }
  const EmbeddingPass pass_;
};

}  // namespace

PreparedKernel PrepareOn(const DeviceContext* device, const Embedding& op, const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  plan.backward_reads_input[0] = true;
  return std::make_unique<EmbeddingKernel>(
      device, std::move(plan),
      EmbeddingPass{.places = r.inputs[0].spec.elements(), .rows = op.rows, .dim = op.dim});
}

}  // namespace soapstone::compute
