// Of a whole batch, and of a part by the moments of all parts (NormalizeByMoments).
// Own loops: oneDNN sums a channel's statistics one after the other in float32, which in a deep
// network is most of all its rounding (inception_v3's gradients differ from exact ones by 4e-4).
#include "compute/cpu/norm_kernel.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compute/cpu/batch_norm_loops.h"
#include "compute/cpu/norm_layout.h"
#include "compute/cpu/plain_inputs.h"

namespace soapstone::compute {
namespace {

// Parameters in the operator's order.
enum BatchNormParam : size_t { kNormWeight, kNormBias, kNormMean, kNormVariance };

class BatchNormKernel : public CpuKernel {
 public:
  struct Parts {
    KernelPlan plan;
    NormLayout layout;
    NormalizeByMoments op;  // counts: none: the batch is whole, and has moments of its own
    bool training = true;
    double samples = 0;  // of the call; its share of all parts' samples
    int64_t channels = 0;
    size_t mean = 0, variance = 0;                        // [channels] offsets in saved
    size_t parts = 0, sums = 0;                           // offsets in scratch
    size_t scale = 0, shift = 0, mean_dy = 0, slope = 0;  // [channels] offsets in scratch
  };
  BatchNormKernel(Parts parts, const CpuContext& context)
      : CpuKernel(parts.plan, context), p_(std::move(parts)) {}

 protected:
  void RunForward(const ForwardArgs& args) override {
    void* statistics = p_.training ? args.saved : args.scratch;
    float* mean = At(statistics, p_.mean);
    float* variance = At(statistics, p_.variance);
    const auto* x = static_cast<const float*>(args.inputs[0]);
    if (p_.training && is_part()) {
      CombineRows(static_cast<const float*>(args.inputs[1]), mean, variance);
    } else if (p_.training) {
      ChannelMoments(context(), p_.layout, x, At<NormMoments>(args.scratch, p_.parts), mean,
                     variance);
    } else {
      Pad(args.params[kNormMean], mean);
      Pad(args.params[kNormVariance], variance);
    }
    Normalize(context(), p_.layout, ChannelsOf(args.params, statistics, args.scratch), x,
              static_cast<float*>(args.outputs[0]));
  }

  void RunBackward(const BackwardArgs& args) override {
    const NormChannels channels = ChannelsOf(args.params, args.saved, args.scratch);
    const NormGradient tensors = {.x = static_cast<const float*>(args.inputs[0]),
                                  .dy = static_cast<const float*>(args.output_grads[0]),
                                  .dx = static_cast<float*>(args.input_grads[0])};
    auto* sums = At<NormGradientSums>(args.scratch, p_.sums);
    ChannelGradientSums(context(), p_.layout, channels, tensors.x, tensors.dy,
                        At<NormGradientSums>(args.scratch, p_.parts), sums);
    const float* variance = At(args.saved, p_.variance);
    const double count = Count();
    // dγ = Σ dy·x̂; dx = γ·rstd·(dy − mean(dy) − x̂·mean(dy·x̂)), x̂ = (x − μ)·rstd; of a part the
    // means are what its moments' gradients bring, in all parts
    float* mean_dy = At(args.scratch, p_.mean_dy);
    float* slope = At(args.scratch, p_.slope);
    for (int64_t c = 0; c < p_.layout.channels(); ++c) {
      const double rstd = 1 / std::sqrt(static_cast<double>(variance[c]) + p_.op.epsilon);
      mean_dy[c] = static_cast<float>(sums[c].dy / count);
      slope[c] = static_cast<float>(sums[c].dyx * rstd * rstd / count);
      if (c >= p_.channels) continue;
      args.param_grads[kNormWeight][c] = static_cast<float>(sums[c].dyx * rstd);
      args.param_grads[kNormBias][c] = static_cast<float>(sums[c].dy);
    }
    GradientsOfStatistics(args);
    if (is_part()) {
      if (args.input_grads[1] != nullptr) GradientOfRows(args, sums);
      std::fill_n(mean_dy, p_.layout.channels(), 0.0f);
      std::fill_n(slope, p_.layout.channels(), 0.0f);
    }
    if (tensors.dx == nullptr) return;
    NormalizeGradient(context(), p_.layout, channels, {mean_dy, slope}, tensors);
  }

 private:
  bool is_part() const { return !p_.op.counts.empty(); }
  // Elements of a channel that mean and variance are of.
  double Count() const {
    if (!is_part()) return static_cast<double>(p_.layout.samples * p_.layout.places);
    return static_cast<double>(
        std::accumulate(p_.op.counts.begin(), p_.op.counts.end(), int64_t{0}));
  }

  // μ = Σ_k n_k·m_k / Σ n_k; σ² = Σ_k (q_k + n_k·(m_k − μ)²) / Σ n_k  (Chan et al. 1983)
  void CombineRows(const float* rows, float* mean, float* variance) const {
    const double all = Count();
    for (int64_t c = 0; c < p_.layout.channels(); ++c) {
      double middle = 0;
      double squares = 0;
      ForRows(rows, c, [&](double n, double m, double) { middle += n * m / all; });
      ForRows(rows, c, [&](double n, double m, double q) {
        squares += q + n * (m - middle) * (m - middle);
      });
      mean[c] = static_cast<float>(middle);
      variance[c] = static_cast<float>(squares / all);
    }
  }

  // body(n_k, m_k, q_k) for each row; none of padding. rows: [rows, C, 2]
  template <class Body>
  void ForRows(const float* rows, int64_t c, const Body& body) const {
    if (c >= p_.channels) return;
    for (size_t k = 0; k < p_.op.counts.size(); ++k) {
      const float* row = rows + (static_cast<int64_t>(k) * p_.channels + c) * 2;
      body(static_cast<double>(p_.op.counts[k]), static_cast<double>(row[0]),
           static_cast<double>(row[1]));
    }
  }

  // This part's share of the gradients: dμ = −γ·rstd·Σ dy, dσ² = −γ·rstd³/2·Σ dy·(x − μ);
  // dq_k = dσ²/Σn, dm_k = n_k/Σn·(dμ + 2·dσ²·(m_k − μ))
  void GradientOfRows(const BackwardArgs& args, const NormGradientSums* sums) const {
    const auto* rows = static_cast<const float*>(args.inputs[1]);
    auto* to = static_cast<float*>(args.input_grads[1]);
    const float* mean = At(args.saved, p_.mean);
    const float* variance = At(args.saved, p_.variance);
    const double all = Count();
    for (int64_t c = 0; c < p_.channels; ++c) {
      const double rstd = 1 / std::sqrt(static_cast<double>(variance[c]) + p_.op.epsilon);
      const double scale = static_cast<double>(args.params[kNormWeight][c]) * rstd;
      const double of_mean = -scale * sums[c].dy;
      const double of_variance = -scale * rstd * rstd / 2 * sums[c].dyx;
      float* at = to + c * 2;
      ForRows(rows, c, [&](double n, double m, double) {
        const double off = m - static_cast<double>(mean[c]);
        at[0] = static_cast<float>(n / all * (of_mean + 2 * of_variance * off));
        at[1] = static_cast<float>(of_variance / all);
        at += p_.channels * 2;
      });
    }
  }

  // Of padding: zero.
  void Pad(const float* from, float* to) const {
    std::copy_n(from, p_.channels, to);
    std::fill_n(to + p_.channels, p_.layout.channels() - p_.channels, 0.0f);
  }

  // scale = γ/√(σ² + ε), in double as torch's and the reference's, and zero for padding
  NormChannels ChannelsOf(absl::Span<const float* const> params, void* statistics,
                          void* scratch) const {
    float* scale = At(scratch, p_.scale);
    float* shift = At(scratch, p_.shift);
    const float* variance = At(statistics, p_.variance);
    Pad(params[kNormBias], shift);
    for (int64_t c = 0; c < p_.layout.channels(); ++c) {
      const double rstd = 1 / std::sqrt(static_cast<double>(variance[c]) + p_.op.epsilon);
      scale[c] = c < p_.channels ? static_cast<float>(params[kNormWeight][c] * rstd) : 0.0f;
    }
    return {At(statistics, p_.mean), scale, shift, p_.op.relu};
  }

  // n·(r − r_now); the variance that is kept is ÷ (places − 1), the one used here ÷ places.
  void GradientsOfStatistics(const BackwardArgs& args) const {
    const float* mean = At(args.saved, p_.mean);
    const float* variance = At(args.saved, p_.variance);
    const auto n = static_cast<float>(p_.samples);
    const double places = Count();
    const float unbias = static_cast<float>(places) / static_cast<float>(std::max(places - 1, 1.0));
    for (int64_t c = 0; c < p_.channels; ++c) {
      args.param_grads[kNormMean][c] = n * (args.params[kNormMean][c] - mean[c]);
      args.param_grads[kNormVariance][c] =
          n * (args.params[kNormVariance][c] - variance[c] * unbias);
    }
  }

  Parts p_;
};

// Keeps the input's layout.
std::unique_ptr<Kernel> MakeNormKernel(const NormalizeByMoments& op, const KernelRequest& request,
                                       const CpuContext& context) {
  const Format& x = request.inputs[0];
  BatchNormKernel::Parts parts = {
      .layout = *NormLayoutOf(x), .op = op, .training = request.training};
  parts.samples = static_cast<double>(x.spec.shape[0]);
  if (!op.counts.empty()) {
    const int64_t all = std::accumulate(op.counts.begin(), op.counts.end(), int64_t{0});
    const int64_t own = parts.layout.samples * parts.layout.places;
    parts.samples =
        static_cast<double>(op.samples) * static_cast<double>(own) / static_cast<double>(all);
  }
  parts.channels = x.spec.shape[1];
  const auto channels = static_cast<size_t>(parts.layout.channels());
  const size_t row = channels * sizeof(float);
  static_assert(sizeof(NormMoments) == sizeof(NormGradientSums));
  Arena saved, scratch;
  parts.scale = scratch.Take(row);
  parts.shift = scratch.Take(row);
  Arena* statistics = request.training ? &saved : &scratch;
  parts.mean = statistics->Take(row);
  parts.variance = statistics->Take(row);
  if (request.training) {
    parts.parts =
        scratch.Take(static_cast<size_t>(parts.layout.samples) * channels * sizeof(NormMoments));
  }
  const size_t forward_bytes = scratch.bytes();
  parts.sums = scratch.Take(channels * sizeof(NormGradientSums));
  parts.mean_dy = scratch.Take(row);
  parts.slope = scratch.Take(row);
  Format y = x;
  y.spec = request.outputs[0];
  parts.plan = {.outputs = {std::move(y)},
                .saved_bytes = saved.bytes(),
                .forward_scratch_bytes = forward_bytes,
                .backward_scratch_bytes = request.training ? scratch.bytes() : 0,
                .backward_reads_input = std::vector<bool>(request.inputs.size(), true),
                .backward_reads_output = {false},
                .forward_in_place = !request.training,
                .backward_in_place = true};
  return std::make_unique<BatchNormKernel>(std::move(parts), context);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeNorm(const NormalizeByMoments& op,
                                                 const KernelRequest& request,
                                                 const CpuContext& context) {
  const auto make = [&](const KernelRequest& r) {
    return GuardedMake(r, context, [&] { return MakeNormKernel(op, r, context); });
  };
  const bool plain_moments = request.inputs.size() == 1 || request.inputs[1].plain();
  if (NormLayoutOf(request.inputs[0]) && plain_moments) return make(request);
  return WithPlainInputs(request, context, make);
}

}  // namespace soapstone::compute
