// Own loops: oneDNN sums a channel's statistics one after the other in float32, which in a deep
// network is most of all its rounding (inception_v3's gradients differ from exact ones by 4e-4).
#include "compute/cpu/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "compute/cpu/batch_norm_loops.h"
#include "compute/cpu/formats.h"
#include "compute/cpu/plain_inputs.h"

namespace soapstone::compute {
namespace {

// Parameters in the operator's order.
enum BatchNormParam : size_t { kNormWeight, kNormBias, kNormMean, kNormVariance };

// Of a layout that the loops understand; the tensor has the shape [N, C, ..].
std::optional<NormLayout> LayoutOf(const Format& x) {
  const std::vector<int64_t>& shape = x.spec.shape;
  const int64_t n = shape[0];
  const int64_t c = shape[1];
  const int64_t places = n * c == 0 ? 0 : x.spec.elements() / (n * c);
  if (x.plain()) {
    if (places == 1) return NormLayout{.samples = 1, .blocks = 1, .places = n, .width = c};
    return NormLayout{.samples = n, .blocks = c, .places = places, .width = 1};
  }
  if (shape.size() != 4) return std::nullopt;
  const DnnlDesc desc = DescOf(x);
  const auto lies = [&](DnnlTag tag) {
    return desc == DnnlDesc(shape, dnnl::memory::data_type::f32, tag);
  };
  if (lies(DnnlTag::nhwc)) {
    return NormLayout{.samples = n, .blocks = 1, .places = places, .width = c};
  }
  for (const auto& [tag, width] : {std::pair(DnnlTag::nChw16c, 16), std::pair(DnnlTag::nChw8c, 8),
                                   std::pair(DnnlTag::nChw4c, 4)}) {
    if (lies(tag)) {
      return NormLayout{
          .samples = n, .blocks = (c + width - 1) / width, .places = places, .width = width};
    }
  }
  return std::nullopt;
}

class BatchNormKernel : public CpuKernel {
 public:
  struct Parts {
    KernelPlan plan;
    NormLayout layout;
    BatchNorm op;
    bool training = true;
    int64_t samples = 0, channels = 0;
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
    if (p_.training) {
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
    const auto count = static_cast<double>(p_.layout.samples * p_.layout.places);
    // dγ = Σ dy·x̂; dx = γ·rstd·(dy − mean(dy) − x̂·mean(dy·x̂)), x̂ = (x − μ)·rstd
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
    if (tensors.dx == nullptr) return;
    NormalizeGradient(context(), p_.layout, channels, {mean_dy, slope}, tensors);
  }

 private:
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
    const int64_t places = p_.layout.samples * p_.layout.places;
    const float unbias =
        static_cast<float>(places) / static_cast<float>(std::max<int64_t>(places - 1, 1));
    for (int64_t c = 0; c < p_.channels; ++c) {
      args.param_grads[kNormMean][c] = n * (args.params[kNormMean][c] - mean[c]);
      args.param_grads[kNormVariance][c] =
          n * (args.params[kNormVariance][c] - variance[c] * unbias);
    }
  }

  Parts p_;
};

// Keeps the input's layout.
std::unique_ptr<Kernel> MakeNormKernel(const BatchNorm& op, const KernelRequest& request,
                                       const CpuContext& context) {
  const Format& x = request.inputs[0];
  BatchNormKernel::Parts parts = {.layout = *LayoutOf(x), .op = op, .training = request.training};
  parts.samples = x.spec.shape[0];
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
                .backward_reads_input = {true},
                .backward_reads_output = {false},
                .forward_in_place = !request.training,
                .backward_in_place = true};
  return std::make_unique<BatchNormKernel>(std::move(parts), context);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeBatchNorm(const BatchNorm& op,
                                                      const KernelRequest& request,
                                                      const CpuContext& context) {
  const auto make = [&](const KernelRequest& r) {
    return GuardedMake(r, context, [&] { return MakeNormKernel(op, r, context); });
  };
  if (!LayoutOf(request.inputs[0])) return WithPlainInputs(request, context, make);
  return make(request);
}

}  // namespace soapstone::compute
