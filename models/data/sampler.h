// Sampler: which samples a global batch holds. A function of (seed, clock) alone, so that all
// workers agree without talking, whatever their number; each reads its own range of positions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/ids.h"

namespace soapstone::models {

// Each epoch is one permutation of all samples, cut into batches in order; the last batch of an
// epoch may be smaller. Keeps the permutation of one epoch (8 bytes a sample).
// Threading: one thread.
class Sampler {
 public:
  // REQUIRES: samples >= 1, batch >= 1.
  Sampler(uint64_t seed, uint64_t samples, uint64_t batch);

  uint64_t steps_per_epoch() const { return (samples_ + batch_ - 1) / batch_; }
  // Samples of the global batch at clock c >= 0.
  uint64_t BatchSamples(Clock clock) const;

  // Indexes of the samples at positions [begin, end) of the global batch at `clock`.
  // REQUIRES: begin <= end <= BatchSamples(clock). Valid until the next call.
  absl::Span<const uint64_t> Samples(Clock clock, uint64_t begin, uint64_t end);

 private:
  const uint64_t seed_;
  const uint64_t samples_;
  const uint64_t batch_;
  uint64_t epoch_ = 0;           // whose permutation `order_` is
  std::vector<uint64_t> order_;  // [samples], or empty before the first call
};

}  // namespace soapstone::models
