// LayerNorm on the device.
#include <memory>
#include <utility>

#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"

namespace soapstone::compute {
namespace {

class LayerNormKernel : public DeviceKernel {
 public:
  LayerNormKernel(const DeviceContext* device, KernelPlan plan, float epsilon, bool training)
      : DeviceKernel(device, std::move(plan)),
        epsilon_(epsilon),
        training_(training),
        cols_(this->plan().outputs[0].spec.shape.back()),
        rows_(this->plan().outputs[0].spec.elements() / cols_) {}

  void RunForward(const ForwardArgs& args) override {
    LayerNormPass pass{.rows = rows_,
                       .cols = cols_,
                       .epsilon = epsilon_,
                       .weight = args.params[0],
                       .bias = args.params[1]};
    if (training_) {
      DeviceSections saved(args.saved);
      pass.mean = saved.Take<float>(rows_);
      pass.rstd = saved.Take<float>(rows_);
    }
    LayerNormForward(stream(), pass, Floats(args.inputs[0]), Floats(args.outputs[0]));
  }

  void RunBackward(const BackwardArgs& args) override {
    DeviceSections saved(args.saved);
    LayerNormGradient g{.rows = rows_, .cols = cols_};
    g.x = Floats(args.inputs[0]);
    g.dy = Floats(args.output_grads[0]);
    g.mean = saved.Take<float>(rows_);
    g.rstd = saved.Take<float>(rows_);
    g.weight = args.params[0];
    g.dx = Floats(args.input_grads[0]);
    g.dweight = args.param_grads[0];
    g.dbias = args.param_grads[1];
    g.partial = Floats(args.scratch);
    LayerNormBackward(stream(), g);
  }

 private:
  const float epsilon_;
  const bool training_;
  const int64_t cols_, rows_;
};

}  // namespace

PreparedKernel PrepareOn(const DeviceContext* device, const LayerNorm& op, const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  const int64_t cols = r.outputs[0].shape.back();
  const int64_t rows = r.outputs[0].elements() / cols;
  if (r.training) {
    DeviceSections saved(nullptr);
    saved.Take<float>(rows);
    saved.Take<float>(rows);
    plan.saved_bytes = saved.bytes();
    plan.backward_scratch_bytes =
        2 * static_cast<size_t>(ColumnPartials(rows, cols)) * sizeof(float);
    plan.backward_reads_input[0] = true;
    plan.backward_in_place = true;
  } else {
    plan.forward_in_place = true;
  }
  return std::make_unique<LayerNormKernel>(device, std::move(plan), static_cast<float>(op.epsilon),
                                           r.training);
}

}  // namespace soapstone::compute
