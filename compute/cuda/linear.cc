// Linear on the device: one product forward, two backward.
#include "base/status_macros.h"
#include "compute/cuda/gemm.h"
#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

// X [rows, D], W [O, D], Y [rows, O].
class LinearKernel : public DeviceKernel {
 public:
  LinearKernel(const DeviceContext* device, KernelPlan plan, const Linear& op, int64_t rows,
               int64_t features)
      : DeviceKernel(device, std::move(plan)), op_(op), rows_(rows), features_(features) {}

  // Of Backward: dY behind relu, then the parts of the bias's sum.
  static size_t Scratch(const Linear& op, int64_t rows) {
    DeviceSections sections(nullptr);
    if (op.relu) sections.Take<float>(rows * op.outputs);
    if (op.bias) sections.Take<float>(ColumnPartials(rows, op.outputs));
    return sections.bytes();
  }

  void RunForward(const ForwardArgs& args) override {
    float* const y = Floats(args.outputs[0]);
    Gemm(context(), {.m = rows_, .n = op_.outputs, .k = features_},
         {.data = Floats(args.inputs[0]), .row_stride = features_},
         {.data = args.params[0], .row_stride = features_, .transposed = true},
         {.data = y, .row_stride = op_.outputs});
    if (!op_.bias && !op_.relu) return;
    AddBias(stream(),
            {.outer = rows_,
             .channels = op_.outputs,
             .bias = op_.bias ? args.params[1] : nullptr,
             .relu = op_.relu},
            y);
  }

  void RunBackward(const BackwardArgs& args) override {
    DeviceSections sections(args.scratch);
    const float* dy = Floats(args.output_grads[0]);
    if (op_.relu) {
      float* const dz = sections.Take<float>(rows_ * op_.outputs);
      ActivateBackward(stream(), rows_ * op_.outputs,
                       {.source = Floats(args.outputs[0]), .dy = dy, .dx = dz});
      dy = dz;
    }
    if (op_.bias) {
      float* const partial = sections.Take<float>(ColumnPartials(rows_, op_.outputs));
      SumColumns(stream(), rows_, op_.outputs, dy, partial, args.param_grads[1]);
    }
    // dW = dYᵀ·X
    Gemm(context(), {.m = op_.outputs, .n = features_, .k = rows_},
         {.data = dy, .row_stride = op_.outputs, .transposed = true},
         {.data = Floats(args.inputs[0]), .row_stride = features_},
         {.data = args.param_grads[0], .row_stride = features_});
    if (args.input_grads[0] == nullptr) return;
    // dX = dY·W
    Gemm(context(), {.m = rows_, .n = features_, .k = op_.outputs},
         {.data = dy, .row_stride = op_.outputs}, {.data = args.params[0], .row_stride = features_},
         {.data = Floats(args.input_grads[0]), .row_stride = features_});
  }

 private:
  const Linear op_;
  const int64_t rows_, features_;
};

}  // namespace

PreparedKernel PrepareOn(const DeviceContext* device, const Linear& op, const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  const int64_t features = r.inputs[0].spec.shape.back();
  const int64_t rows = r.outputs[0].elements() / op.outputs;
  plan.backward_reads_input[0] = true;
  plan.backward_reads_output[0] = op.relu;
  plan.backward_scratch_bytes = LinearKernel::Scratch(op, rows);
  return std::make_unique<LinearKernel>(device, std::move(plan), op, rows, features);
}

}  // namespace soapstone::compute
