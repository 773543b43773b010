#include "compute/cpu/split.h"

#include <cstring>
#include <vector>

#include "compute/cpu/formats.h"

namespace soapstone::compute {
namespace {

// X is `rows` rows, the axes before the cut; each output has `widths` bytes of each, in turn.
class CpuSplit : public CpuKernel {
 public:
  struct Parts {
    KernelPlan plan;
    int64_t rows = 0;
    std::vector<size_t> widths;
    PlainInput x;
    PlainOutput dx;
  };
  CpuSplit(Parts parts, const CpuContext& context)
      : CpuKernel(parts.plan, context), p_(std::move(parts)) {
    for (const size_t width : p_.widths) row_bytes_ += width;
  }

 protected:
  void RunForward(const ForwardArgs& a) override {
    const char* x = p_.x.Get<char>(a.inputs[0], a.scratch);
    ForPieces([&](size_t output, int64_t row, size_t offset) {
      const size_t width = p_.widths[output], at = static_cast<size_t>(row);
      std::memcpy(static_cast<char*>(a.outputs[output]) + at * width, x + at * row_bytes_ + offset,
                  width);
    });
  }

  void RunBackward(const BackwardArgs& a) override {
    if (a.input_grads[0] == nullptr) return;
    char* dx = p_.dx.Get<char>(a.input_grads[0], a.scratch);
    ForPieces([&](size_t output, int64_t row, size_t offset) {
      const size_t width = p_.widths[output], at = static_cast<size_t>(row);
      std::memcpy(dx + at * row_bytes_ + offset,
                  static_cast<const char*>(a.output_grads[output]) + at * width, width);
    });
    p_.dx.Finish(a.input_grads[0], a.scratch);
  }

 private:
  template <typename Copy>
  void ForPieces(const Copy& copy) const {
    ParallelFor(context(), p_.rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        size_t offset = 0;
        for (size_t output = 0; output < p_.widths.size(); ++output) {
          copy(output, row, offset);
          offset += p_.widths[output];
        }
      }
    });
  }

  Parts p_;
  size_t row_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeSplit(const Split& op, const KernelRequest& request,
                                                  const CpuContext& context) {
  return GuardedMake(request, context, [&]() -> std::unique_ptr<Kernel> {
    const Format& x = request.inputs[0];
    Arena forward, backward;
    CpuSplit::Parts parts = {
        .rows = 1, .x = PlainInput(x, context, &forward), .dx = PlainOutput(x, context, &backward)};
    size_t inner_bytes = 4;
    for (size_t i = 0; i < x.spec.shape.size(); ++i) {
      if (static_cast<int64_t>(i) < op.axis) parts.rows *= x.spec.shape[i];
      if (static_cast<int64_t>(i) > op.axis) inner_bytes *= static_cast<size_t>(x.spec.shape[i]);
    }
    for (const int64_t size : op.sizes) {
      parts.widths.push_back(static_cast<size_t>(size) * inner_bytes);
    }
    for (const TensorSpec& spec : request.outputs) parts.plan.outputs.push_back(PlainFormat(spec));
    parts.plan.forward_scratch_bytes = forward.bytes();
    parts.plan.backward_scratch_bytes = backward.bytes();
    parts.plan.backward_reads_input = {false};
    parts.plan.backward_reads_output.assign(op.sizes.size(), false);
    return std::make_unique<CpuSplit>(std::move(parts), context);
  });
}

}  // namespace soapstone::compute
