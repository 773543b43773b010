// Concat and Split on the device: each is the other's Backward, sections copied between one whole
// tensor and the parts that it consists of along an axis.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "compute/cuda/operators.h"

namespace soapstone::compute {

// Elements before the axis, and of one index of it.
struct AxisView {
  int64_t outer = 1, inner = 1;
};
AxisView ViewOf(const std::vector<int64_t>& shape, int64_t axis);

// One whole tensor and the parts that it consists of along an axis.
class JointKernel : public DeviceKernel {
 public:
  JointKernel(const DeviceContext* device, KernelPlan plan, AxisView view,
              std::vector<int64_t> sizes, bool concat)
      : DeviceKernel(device, std::move(plan)),
        view_(view),
        sizes_(std::move(sizes)),
        concat_(concat) {}
  void RunForward(const ForwardArgs& args) override;
  void RunBackward(const BackwardArgs& args) override;

 private:
  int64_t whole() const;
  void Join(absl::Span<const void* const> parts, void* to);
  void Part(const void* from, absl::Span<void* const> parts);

  const AxisView view_;
  const std::vector<int64_t> sizes_;
  const bool concat_;
};

}  // namespace soapstone::compute
