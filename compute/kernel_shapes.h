// Shapes of operator kernels: plain values, with N fixed. Used by every implementation of the
// kernels (reference.h, cpu_kernels.h) and by those who make them. All tensors are row-major f32.
#pragma once

#include <cstdint>

namespace soapstone::compute {

// Y[N, O] = X[N, I] · Wᵀ + b,  W: [O, I], b: [O]
struct LinearShape {
  int64_t samples = 0;
  int64_t inputs = 0;
  int64_t outputs = 0;

  int64_t input_size() const { return samples * inputs; }
  int64_t output_size() const { return samples * outputs; }
  int64_t weight_size() const { return outputs * inputs; }
};

// X: [N, C, H, W], W: [O, C, kernel, kernel], b: [O], Y: [N, O, H', W'],
// H' = (H + 2·padding − kernel)/stride + 1, and W' alike.
struct Conv2dShape {
  int64_t samples = 0;
  int64_t in_channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t out_channels = 0;
  int64_t kernel = 0;
  int64_t stride = 1;
  int64_t padding = 0;

  int64_t out_height() const { return (height + 2 * padding - kernel) / stride + 1; }
  int64_t out_width() const { return (width + 2 * padding - kernel) / stride + 1; }
  int64_t input_size() const { return samples * in_channels * height * width; }
  int64_t output_size() const { return samples * out_channels * out_height() * out_width(); }
  int64_t weight_size() const { return out_channels * in_channels * kernel * kernel; }
};

enum class PoolKind : uint8_t { kMax, kAverage };

// X: [N, C, H, W], Y: [N, C, H', W'], H' = (H − kernel)/stride + 1, and W' alike. No padding.
struct PoolShape {
  PoolKind kind = PoolKind::kMax;
  int64_t samples = 0;
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t kernel = 2;
  int64_t stride = 2;

  int64_t out_height() const { return (height - kernel) / stride + 1; }
  int64_t out_width() const { return (width - kernel) / stride + 1; }
  int64_t input_size() const { return samples * channels * height * width; }
  int64_t output_size() const { return samples * channels * out_height() * out_width(); }
};

}  // namespace soapstone::compute
