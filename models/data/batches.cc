#include "models/data/batches.h"

#include <algorithm>

#include "models/data/augmentation.h"

namespace soapstone::models {

Batches::Batches(const Dataset* data, uint64_t seed, uint64_t batch)
    : data_(data), seed_(seed), sampler_(seed, data->size(), batch) {}

void Batches::Fill(const BatchPart& part, MiniBatch* feed) {
  const absl::Span<const uint64_t> samples = sampler_.Samples(part.clock, part.begin, part.end);
  data_->Gather(samples, feed);
  if (data_->augmentation.any()) AugmentImages(part, samples, feed);
}

void Batches::AugmentImages(const BatchPart& part, absl::Span<const uint64_t> samples,
                            MiniBatch* feed) {
  const uint64_t epoch = static_cast<uint64_t>(part.clock) / sampler_.steps_per_epoch();
  const auto elements = static_cast<size_t>(data_->shape.elements());
  auto* images = reinterpret_cast<float*>(feed->fields[0].data());
  for (size_t i = 0; i < samples.size(); ++i) {
    const absl::Span<float> image(images + i * elements, elements);
    image_.assign(image.begin(), image.end());
    Augment(data_->augmentation, {.seed = seed_, .epoch = epoch, .sample = samples[i]},
            data_->shape, image_, image);
  }
}

}  // namespace soapstone::models
