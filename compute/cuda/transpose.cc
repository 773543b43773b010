// Transpose on the device.
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"
#include "compute/cuda/strided_index.h"

namespace soapstone::compute {
namespace {

class TransposeKernel : public DeviceKernel {
 public:
  TransposeKernel(const DeviceContext* device, KernelPlan plan, const StridedIndex& forward,
                  const StridedIndex& backward)
      : DeviceKernel(device, std::move(plan)), forward_(forward), backward_(backward) {}
  void RunForward(const ForwardArgs& args) override {
    GatherStrided(stream(), forward_, args.inputs[0], args.outputs[0]);
  }
  void RunBackward(const BackwardArgs& args) override {
    if (args.input_grads[0] == nullptr) return;
    GatherStrided(stream(), backward_, args.output_grads[0], args.input_grads[0]);
  }

 private:
  const StridedIndex forward_, backward_;
};

}  // namespace

PreparedKernel PrepareOn(const DeviceContext* device, const Transpose& op, const KernelRequest& r) {
  const absl::Status fits = CheckDims(r);
  if (!fits.ok()) return fits;
  const std::vector<int64_t>& in = r.inputs[0].spec.shape;
  const std::vector<int64_t>& out = r.outputs[0].shape;
  const std::vector<int64_t> in_strides = StridesOf(in), out_strides = StridesOf(out);
  std::vector<size_t> place(in.size());  // of the input's axis, in the output
  StridedIndex forward, backward;
  for (size_t d = 0; d < out.size(); ++d) {
    const size_t from = static_cast<size_t>(op.permutation[d]);
    AddDimension(out[d], in_strides[from], &forward);
    place[from] = d;
  }
  for (size_t d = 0; d < in.size(); ++d) AddDimension(in[d], out_strides[place[d]], &backward);
  return std::make_unique<TransposeKernel>(device, PlainPlan(r), forward, backward);
}

}  // namespace soapstone::compute
