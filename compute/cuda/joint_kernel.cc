#include "compute/cuda/joint_kernel.h"

#include "compute/cuda/kernels.h"

namespace soapstone::compute {

AxisView ViewOf(const std::vector<int64_t>& shape, int64_t axis) {
  AxisView view;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
    if (d < axis) view.outer *= shape[static_cast<size_t>(d)];
    if (d > axis) view.inner *= shape[static_cast<size_t>(d)];
  }
  return view;
}

void JointKernel::RunForward(const ForwardArgs& args) {
  if (concat_) {
    Join(args.inputs, args.outputs[0]);
  } else {
    Part(args.inputs[0], args.outputs);
  }
}

void JointKernel::RunBackward(const BackwardArgs& args) {
  if (concat_) {
    Part(args.output_grads[0], args.input_grads);
  } else if (args.input_grads[0] != nullptr) {
    Join(args.output_grads, args.input_grads[0]);
  }
}

int64_t JointKernel::whole() const {
  int64_t sum = 0;
  for (int64_t size : sizes_) sum += size;
  return sum * view_.inner;
}

void JointKernel::Join(absl::Span<const void* const> parts, void* to) {
  int64_t at = 0;
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const int64_t width = sizes_[i] * view_.inner;
    CopySection(stream(), {.rows = view_.outer,
                           .width = width,
                           .from = parts[i],
                           .from_stride = width,
                           .to = Floats(to) + at,
                           .to_stride = whole()});
    at += width;
  }
}

void JointKernel::Part(const void* from, absl::Span<void* const> parts) {
  int64_t at = 0;
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const int64_t width = sizes_[i] * view_.inner;
    if (parts[i] != nullptr) {
      CopySection(stream(), {.rows = view_.outer,
                             .width = width,
                             .from = Floats(from) + at,
                             .from_stride = whole(),
                             .to = parts[i],
                             .to_stride = width});
    }
    at += width;
  }
}

}  // namespace soapstone::compute
