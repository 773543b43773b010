// The passes of batch normalisation over a tensor, by channel. Sums are taken in float32 over short
// runs and in double over those, and the variance around each run's own mean: in deep networks what
// a statistic is off by moves all of its channel the same way, and every layer adds to it. The
// results do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "compute/cpu/context.h"

namespace soapstone::compute {

// Element (sample n, channel b·width + c, place p) is at ((n·blocks + b)·places + p)·width + c:
// blocks of channels, channels last (one block), or plain (width 1).
struct NormLayout {
  int64_t samples = 0, blocks = 0, places = 0, width = 0;

  int64_t channels() const { return blocks * width; }  // with padding
};

// Sums over one sample and channel, to be added up over the samples.
struct NormMoments {
  double mean = 0;
  double squares = 0;  // Σ (x − mean)²
};
struct NormGradientSums {
  double dy = 0;   // Σ dy
  double dyx = 0;  // Σ dy·(x − μ)
};

// y = (x − μ)·scale + shift, then max(0, ·) if `relu`.
struct NormChannels {
  const float* mean = nullptr;   // [channels]
  const float* scale = nullptr;  // [channels]
  const float* shift = nullptr;  // [channels]
  bool relu = false;
};

// mean, variance (÷ n) [channels]; parts: [samples, channels], to work in
void ChannelMoments(const CpuContext& context, const NormLayout& layout, const float* x,
                    NormMoments* parts, float* mean, float* variance);

// y may be x.
void Normalize(const CpuContext& context, const NormLayout& layout, const NormChannels& channels,
               const float* x, float* y);

// sums [channels], with dy 0 where the relu was; parts: [samples, channels], to work in
void ChannelGradientSums(const CpuContext& context, const NormLayout& layout,
                         const NormChannels& channels, const float* x, const float* dy,
                         NormGradientSums* parts, NormGradientSums* sums);

// dx = scale·(dy − mean_dy − (x − μ)·slope), with dy 0 where the relu was.
struct NormSlopes {
  const float* mean_dy = nullptr;  // [channels]
  const float* slope = nullptr;    // [channels]
};
// dx may be dy.
struct NormGradient {
  const float* x = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
};
void NormalizeGradient(const CpuContext& context, const NormLayout& layout,
                       const NormChannels& channels, const NormSlopes& slopes,
                       const NormGradient& tensors);

}  // namespace soapstone::compute
