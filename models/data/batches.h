// Batches: the mini-batches of a run as they are trained on. A function of the data, the seed and
// the clock alone, whatever the number of workers: a run that goes on from a clock needs no other
// position, and goes on with the same bits.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "models/data/dataset.h"
#include "models/data/mini_batch.h"
#include "models/data/sampler.h"

namespace soapstone::models {

// Positions [begin, end) of the global batch at a clock.
struct BatchPart {
  Clock clock = 0;
  uint64_t begin = 0;
  uint64_t end = 0;

  friend bool operator==(const BatchPart&, const BatchPart&) = default;
};

// The samples that Sampler names, changed as data.augmentation says, with the seed and epoch.
// Threading: one thread. Keeps a pointer to `data`, which must outlive it.
class Batches {
 public:
  // REQUIRES: data.size() >= 1, batch >= 1.
  Batches(const Dataset* data, uint64_t seed, uint64_t batch);

  // Samples of the global batch at clock c >= 0.
  uint64_t BatchSamples(Clock clock) const { return sampler_.BatchSamples(clock); }

  // Replaces what was in `feed`. REQUIRES: begin <= end <= BatchSamples(clock).
  void Fill(const BatchPart& part, MiniBatch* feed);

 private:
  void AugmentImages(const BatchPart& part, absl::Span<const uint64_t> samples, MiniBatch* feed);

  const Dataset* const data_;
  const uint64_t seed_;
  Sampler sampler_;
  std::vector<float> image_;  // before its augmentation
};

}  // namespace soapstone::models
