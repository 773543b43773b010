#include "models/data/sampler.h"

#include <algorithm>

#include "base/random.h"
#include "glog/logging.h"
#include "models/data/permutation.h"

namespace soapstone::models {

Sampler::Sampler(uint64_t seed, uint64_t samples, uint64_t batch)
    : seed_(seed), samples_(samples), batch_(std::min(batch, samples)) {
  CHECK_GE(samples_, 1u);
  CHECK_GE(batch_, 1u);
}

uint64_t Sampler::BatchSamples(Clock clock) const {
  CHECK_GE(clock, 0);
  const uint64_t step = static_cast<uint64_t>(clock) % steps_per_epoch();
  return std::min(batch_, samples_ - step * batch_);
}

absl::Span<const uint64_t> Sampler::Samples(Clock clock, uint64_t begin, uint64_t end) {
  CHECK_LE(begin, end);
  CHECK_LE(end, BatchSamples(clock));
  const uint64_t epoch = static_cast<uint64_t>(clock) / steps_per_epoch();
  const uint64_t step = static_cast<uint64_t>(clock) % steps_per_epoch();
  if (order_.empty() || epoch != epoch_) {
    order_ = Permutation(CounterRandom(seed_, RandomUse::kPermutation, epoch), samples_);
    epoch_ = epoch;
  }
  return absl::MakeConstSpan(order_).subspan(step * batch_ + begin, end - begin);
}

}  // namespace soapstone::models
