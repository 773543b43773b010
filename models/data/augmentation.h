// Augmentation: random changes to training images, each a function of (seed, epoch, sample), so
// that they do not depend on who trains a sample, in which order, or where a run was resumed.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "models/readers/image_shape.h"

namespace soapstone::models {

// First the crop: the image within a frame of zeros `pad` wide, of which a part of the image's own
// size is cut out at a uniformly random place. Then, with probability `flip`, left and right are
// exchanged.
struct Augmentation {
  int64_t pad = 0;
  double flip = 0;

  bool any() const { return pad > 0 || flip > 0; }
  friend bool operator==(const Augmentation&, const Augmentation&) = default;
};

// "crop:pad=4", "flip" (p=0.5), "flip:p=P", or both joined by '+'; empty or "none": no change.
// Error: InvalidArgument that says what there is.
absl::StatusOr<Augmentation> ParseAugmentation(const std::string& text);

struct SampleKey {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t sample = 0;
};

// image, out: [C, H, W] f32; they do not overlap.
void Augment(const Augmentation& augmentation, const SampleKey& key, const ImageShape& shape,
             absl::Span<const float> image, absl::Span<float> out);

}  // namespace soapstone::models
