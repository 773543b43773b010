// Kernel: one operator at one fixed shape, prepared once and run many times. Implemented by
// cpu_kernels.h (oneDNN) and reference.h (plain loops); run by models/replica.
#pragma once

#include "absl/types/span.h"

namespace soapstone::compute {

// What an operator reads and writes; spans an operator does not have stay empty.
struct ForwardArgs {
  absl::Span<const float> input;   // X
  absl::Span<const float> weight;  // W
  absl::Span<const float> bias;    // b
  absl::Span<float> output;        // Y
};

// For a loss L: *_grad is ∂L/∂(*), summed over the samples. All are written, never added to.
struct BackwardArgs {
  absl::Span<const float> input;        // X, as in the forward run
  absl::Span<const float> output;       // Y, as the forward run left it
  absl::Span<const float> weight;       // W
  absl::Span<const float> output_grad;  // ∂L/∂Y
  absl::Span<float> input_grad;         // ∂L/∂X; empty: not wanted
  absl::Span<float> weight_grad;        // ∂L/∂W
  absl::Span<float> bias_grad;          // ∂L/∂b
};

// Invariant: the same inputs give the same bits in every process on one machine.
// Threading: one thread at a time; runs on the calling thread alone. Keeps no pointer of a call.
// Backward follows the Forward whose input it names (max pooling keeps that run's choices).
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void Forward(const ForwardArgs& args) = 0;
  virtual void Backward(const BackwardArgs& args) = 0;
};

}  // namespace soapstone::compute
