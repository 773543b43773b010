// Pool on the device.
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"

namespace soapstone::compute {
namespace {

class PoolKernel : public DeviceKernel {
 public:
  PoolKernel(const DeviceContext* device, KernelPlan plan, PoolKind kind, const PoolPass& pass)
      : DeviceKernel(device, std::move(plan)), kind_(kind), pass_(pass) {}
  void RunForward(const ForwardArgs& args) override {
    const float* const x = Floats(args.inputs[0]);
    float* const y = Floats(args.outputs[0]);
    if (kind_ == PoolKind::kAverage) return AveragePoolForward(stream(), pass_, x, y);
    MaxPoolForward(stream(), pass_, x, y,
                   plan().saved_bytes > 0 ? static_cast<int32_t*>(args.saved) : nullptr);
  }
  void RunBackward(const BackwardArgs& args) override {
    if (args.input_grads[0] == nullptr) return;
    const float* const dy = Floats(args.output_grads[0]);
    float* const dx = Floats(args.input_grads[0]);
    if (kind_ == PoolKind::kAverage) return AveragePoolBackward(stream(), pass_, dy, dx);
    MaxPoolBackward(stream(), pass_, static_cast<const int32_t*>(args.saved), dy, dx);
  }

 private:
  const PoolKind kind_;
  const PoolPass pass_;
};

}  // namespace

PreparedKernel PrepareOn(const DeviceContext* device, const Pool& op, const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  const std::vector<int64_t>& in = r.inputs[0].spec.shape;
  const std::vector<int64_t>& out = r.outputs[0].shape;
  if (in[2] * in[3] > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(r.name, ": an image of more than 2^31 places"));
  }
  const PoolPass pass{.planes = in[0] * in[1],
                      .height = in[2],
                      .width = in[3],
                      .out_height = out[2],
                      .out_width = out[3],
                      .size_h = op.window.height,
                      .size_w = op.window.width,
                      .stride_h = op.window.stride_h,
                      .stride_w = op.window.stride_w,
                      .pad_h = op.window.pad_h,
                      .pad_w = op.window.pad_w,
                      .count_padding = op.count_padding};
  if (op.kind == PoolKind::kMax && r.training) plan.saved_bytes = plan.outputs[0].bytes;
  return std::make_unique<PoolKernel>(device, std::move(plan), op.kind, pass);
}

}  // namespace soapstone::compute
