// The moments of a part of a batch, by the loops of batch normalization.
#include "compute/cpu/batch_moments.h"

#include <algorithm>
#include <utility>

#include "compute/cpu/batch_norm_loops.h"
#include "compute/cpu/norm_layout.h"
#include "compute/cpu/plain_inputs.h"

namespace soapstone::compute {
namespace {

class BatchMomentsKernel : public CpuKernel {
 public:
  struct Parts {
    KernelPlan plan;
    NormLayout layout;
    BatchMoments op;
    bool training = true;
    int64_t channels = 0;
    size_t mean = 0;                 // [channels] in saved, of evaluation in scratch
    size_t variance = 0, parts = 0;  // in scratch
    size_t scale = 0, shift = 0;     // [channels] in scratch
  };
  BatchMomentsKernel(Parts parts, const CpuContext& context)
      : CpuKernel(parts.plan, context), p_(std::move(parts)) {}

 protected:
  // m = Σ x / n; q = Σ (x − m)²
  void RunForward(const ForwardArgs& args) override {
    auto* rows = static_cast<float*>(args.outputs[0]);
    std::fill_n(rows, p_.op.rows * p_.channels * 2, 0.0f);
    float* mean = At(p_.training ? args.saved : args.scratch, p_.mean);
    float* variance = At(args.scratch, p_.variance);
    ChannelMoments(context(), p_.layout, static_cast<const float*>(args.inputs[0]),
                   At<NormMoments>(args.scratch, p_.parts), mean, variance);
    float* row = rows + p_.op.row * p_.channels * 2;
    for (int64_t c = 0; c < p_.channels; ++c) {
      row[2 * c] = mean[c];
      row[2 * c + 1] = static_cast<float>(static_cast<double>(variance[c]) * Count());
    }
  }

  // dx = dm/n + 2·dq·(x − m)
  void RunBackward(const BackwardArgs& args) override {
    auto* dx = static_cast<float*>(args.input_grads[0]);
    if (dx == nullptr) return;
    const float* row =
        static_cast<const float*>(args.output_grads[0]) + p_.op.row * p_.channels * 2;
    float* scale = At(args.scratch, p_.scale);
    float* shift = At(args.scratch, p_.shift);
    for (int64_t c = 0; c < p_.layout.channels(); ++c) {
      const bool padding = c >= p_.channels;
      shift[c] = padding ? 0.0f : static_cast<float>(static_cast<double>(row[2 * c]) / Count());
      scale[c] = padding ? 0.0f : 2 * row[2 * c + 1];
    }
    Normalize(context(), p_.layout,
              {.mean = At(args.saved, p_.mean), .scale = scale, .shift = shift},
              static_cast<const float*>(args.inputs[0]), dx);
  }

 private:
  double Count() const { return static_cast<double>(p_.layout.samples * p_.layout.places); }

  Parts p_;
};

std::unique_ptr<Kernel> MakeMomentsKernel(const BatchMoments& op, const KernelRequest& request,
                                          const CpuContext& context) {
  const Format& x = request.inputs[0];
  BatchMomentsKernel::Parts parts = {
      .layout = *NormLayoutOf(x), .op = op, .training = request.training};
  parts.channels = x.spec.shape[1];
  const auto channels = static_cast<size_t>(parts.layout.channels());
  const size_t row = channels * sizeof(float);
  Arena saved, forward, backward;
  parts.mean = (request.training ? saved : forward).Take(row);
  parts.variance = forward.Take(row);
  parts.parts =
      forward.Take(static_cast<size_t>(parts.layout.samples) * channels * sizeof(NormMoments));
  if (request.training) {
    parts.scale = backward.Take(row);
    parts.shift = backward.Take(row);
  }
  parts.plan = {.outputs = {PlainFormat(request.outputs[0])},
                .saved_bytes = saved.bytes(),
                .forward_scratch_bytes = forward.bytes(),
                .backward_scratch_bytes = backward.bytes(),
                .backward_reads_input = {true},
                .backward_reads_output = {false}};
  return std::make_unique<BatchMomentsKernel>(std::move(parts), context);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeBatchMoments(const BatchMoments& op,
                                                         const KernelRequest& request,
                                                         const CpuContext& context) {
  const auto make = [&](const KernelRequest& r) {
    return GuardedMake(r, context, [&] { return MakeMomentsKernel(op, r, context); });
  };
  if (!NormLayoutOf(request.inputs[0])) return WithPlainInputs(request, context, make);
  return make(request);
}

}  // namespace soapstone::compute
