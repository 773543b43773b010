// Pooling, embedding, and operators that move or sum elements without arithmetic of their own.
#include <limits>

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

// Elements before the axis, and of one index of it.
struct AxisView {
  int64_t outer = 1, inner = 1;
};
AxisView ViewOf(const std::vector<int64_t>& shape, int64_t axis) {
  AxisView view;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
    if (d < axis) view.outer *= shape[static_cast<size_t>(d)];
    if (d > axis) view.inner *= shape[static_cast<size_t>(d)];
  }
  return view;
}

// One whole tensor and the parts that it consists of along an axis.
class JointKernel : public DeviceKernel {
 public:
  JointKernel(const DeviceContext* device, KernelPlan plan, AxisView view,
              std::vector<int64_t> sizes, bool concat)
      : DeviceKernel(device, std::move(plan)),
        view_(view),
        sizes_(std::move(sizes)),
        concat_(concat) {}
  void RunForward(const ForwardArgs& args) override {
    if (concat_) {
      Join(args.inputs, args.outputs[0]);
    } else {
      Part(args.inputs[0], args.outputs);
    }
  }
  void RunBackward(const BackwardArgs& args) override {
    if (concat_) {
      Part(args.output_grads[0], args.input_grads);
    } else if (args.input_grads[0] != nullptr) {
      Join(args.output_grads, args.input_grads[0]);
    }
  }

 private:
  int64_t whole() const {
    int64_t sum = 0;
    for (int64_t size : sizes_) sum += size;
    return sum * view_.inner;
  }
  void Join(absl::Span<const void* const> parts, void* to) {
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
  void Part(const void* from, absl::Span<void* const> parts) {
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
  const AxisView view_;
  const std::vector<int64_t> sizes_;
  const bool concat_;
};

class ReshapeKernel : public DeviceKernel {
 public:
  using DeviceKernel::DeviceKernel;
  void RunForward(const ForwardArgs& args) override {
    Copy(args.inputs[0], args.outputs[0], plan().outputs[0].bytes);
  }
  void RunBackward(const BackwardArgs& args) override {
    if (args.input_grads[0] == nullptr) return;
    Copy(args.output_grads[0], args.input_grads[0], plan().outputs[0].bytes);
  }
};

std::vector<int64_t> StridesOf(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

void AddDimension(int64_t size, int64_t stride, StridedIndex* index) {
  index->size[index->dims] = size;
  index->stride[index->dims] = stride;
  ++index->dims;
}

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

absl::Status CheckDims(const KernelRequest& r) {
  if (r.inputs[0].spec.shape.size() <= kDimsMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(r.name, ": at most ", kDimsMax, " dimensions on a device; reshape it first"));
}

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

PreparedKernel PrepareOn(const DeviceContext* device, const Embedding& op, const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  plan.backward_reads_input[0] = true;
  return std::make_unique<EmbeddingKernel>(
      device, std::move(plan),
      EmbeddingPass{.places = r.inputs[0].spec.elements(), .rows = op.rows, .dim = op.dim});
}

PreparedKernel PrepareOn(const DeviceContext* device, const Concat& op, const KernelRequest& r) {
  std::vector<int64_t> sizes;
  for (const Format& input : r.inputs) {
    sizes.push_back(input.spec.shape[static_cast<size_t>(op.axis)]);
  }
  return std::make_unique<JointKernel>(device, PlainPlan(r), ViewOf(r.outputs[0].shape, op.axis),
                                       std::move(sizes), true);
}

PreparedKernel PrepareOn(const DeviceContext* device, const Split& op, const KernelRequest& r) {
  return std::make_unique<JointKernel>(device, PlainPlan(r),
                                       ViewOf(r.inputs[0].spec.shape, op.axis), op.sizes, false);
}

PreparedKernel PrepareOn(const DeviceContext* device, const Reshape& /*op*/,
                         const KernelRequest& r) {
  KernelPlan plan = PlainPlan(r);
  plan.alias = plan.forward_in_place = plan.backward_in_place = true;
  return std::make_unique<ReshapeKernel>(device, std::move(plan));
}

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
