// Reduce on the device.
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"
#include "compute/cuda/strided_index.h"

namespace soapstone::compute {
namespace {

class ReduceKernel : public DeviceKernel {
 public:
  ReduceKernel(const DeviceContext* device, KernelPlan plan, const StridedSum& forward,
               const StridedIndex& backward)
      : DeviceKernel(device, std::move(plan)), forward_(forward), backward_(backward) {}
  void RunForward(const ForwardArgs& args) override {
    ReduceStrided(stream(), forward_, Floats(args.inputs[0]), Floats(args.outputs[0]));
  }
  void RunBackward(const BackwardArgs& args) override {
    if (args.input_grads[0] == nullptr) return;
    BroadcastStrided(stream(), backward_, forward_.scale, Floats(args.output_grads[0]),
                     Floats(args.input_grads[0]));
  }

 private:
  const StridedSum forward_;
  const StridedIndex backward_;
};

}  // namespace

PreparedKernel PrepareOn(const DeviceContext* device, const Reduce& op, const KernelRequest& r) {
  const absl::Status fits = CheckDims(r);
  if (!fits.ok()) return fits;
  const std::vector<int64_t>& in = r.inputs[0].spec.shape;
  const std::vector<int64_t> strides = StridesOf(in);
  const std::vector<int64_t> out_strides = StridesOf(r.outputs[0].shape);
  std::vector<bool> reduced(in.size(), false);
  for (int64_t axis : op.axes) reduced[static_cast<size_t>(axis)] = true;
  StridedSum forward;
  StridedIndex backward;
  size_t kept = 0;
  for (size_t d = 0; d < in.size(); ++d) {
    AddDimension(in[d], strides[d], reduced[d] ? &forward.reduced : &forward.kept);
    AddDimension(in[d], reduced[d] ? 0 : out_strides[kept++], &backward);
  }
  if (op.kind == ReduceKind::kMean) {
    forward.scale = 1.0f / static_cast<float>(forward.reduced.elements());
  }
  return std::make_unique<ReduceKernel>(device, PlainPlan(r), forward, backward);
}

}  // namespace soapstone::compute
