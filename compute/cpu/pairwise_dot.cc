#include "compute/cpu/pairwise_dot.h"

#include <algorithm>

#include "compute/cpu/gemm.h"
#include "compute/cpu/plain_inputs.h"

namespace soapstone::compute {
namespace {

// X [n, f, d]. Scratch: a square [f, f] a sample.
class PairwiseDotKernel : public CpuKernel {
 public:
  PairwiseDotKernel(KernelPlan plan, const CpuContext& context, const std::vector<int64_t>& x)
      : CpuKernel(std::move(plan), context), n_(x[0]), f_(x[1]), d_(x[2]) {}

 protected:
  // S = X Xᵀ, of which Y is what lies below the diagonal.
  void RunForward(const ForwardArgs& args) override {
    const auto* x = static_cast<const float*>(args.inputs[0]);
    auto* y = static_cast<float*>(args.outputs[0]);
    ParallelFor(context(), n_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const float* vectors = x + n * f_ * d_;
        float* square = At<float>(args.scratch, 0) + n * f_ * f_;
        Gemm({f_, f_, d_}, {vectors, d_}, {vectors, d_, true}, {square, f_});
        float* below = y + n * pairs();
        for (int64_t i = 1; i < f_; ++i) below = std::copy_n(square + i * f_, i, below);
      }
    });
  }

  // dX = G X, where G has dY below the diagonal, its mirror image above, and zeros on it.
  void RunBackward(const BackwardArgs& args) override {
    if (args.input_grads[0] == nullptr) return;
    const auto* x = static_cast<const float*>(args.inputs[0]);
    const auto* dy = static_cast<const float*>(args.output_grads[0]);
    auto* dx = static_cast<float*>(args.input_grads[0]);
    ParallelFor(context(), n_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        float* square = At<float>(args.scratch, 0) + n * f_ * f_;
        const float* pair = dy + n * pairs();
        for (int64_t i = 0; i < f_; ++i) {
          square[i * f_ + i] = 0;
          for (int64_t j = 0; j < i; ++j) square[i * f_ + j] = square[j * f_ + i] = *pair++;
        }
        Gemm({f_, d_, f_}, {square, f_}, {x + n * f_ * d_, d_}, {dx + n * f_ * d_, d_});
      }
    });
  }

 private:
  int64_t pairs() const { return f_ * (f_ - 1) / 2; }

  const int64_t n_, f_, d_;
};

std::unique_ptr<Kernel> MakePlainPairwiseDot(const KernelRequest& request,
                                             const CpuContext& context) {
  const std::vector<int64_t>& x = request.inputs[0].spec.shape;
  const size_t squares = static_cast<size_t>(x[0] * x[1] * x[1]) * sizeof(float);
  KernelPlan plan = {.outputs = {PlainFormat(request.outputs[0])},
                     .forward_scratch_bytes = squares,
                     .backward_scratch_bytes = GradWanted(request, 0) ? squares : 0,
                     .backward_reads_input = {GradWanted(request, 0)},
                     .backward_reads_output = {false}};
  return std::make_unique<PairwiseDotKernel>(std::move(plan), context, x);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakePairwiseDot(const PairwiseDot&,
                                                        const KernelRequest& request,
                                                        const CpuContext& context) {
  return WithPlainInputs(request, context, [&](const KernelRequest& plain) {
    return GuardedMake(plain, context, [&] { return MakePlainPairwiseDot(plain, context); });
  });
}

}  // namespace soapstone::compute
