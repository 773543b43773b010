#include "models/data/augmentation.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/spec.h"
#include "base/status_macros.h"
#include "glog/logging.h"

namespace soapstone::models {
namespace {

constexpr int64_t kPadMax = 1024;

// A word of a block of random bits as an integer in [0, bound), with a bias below bound / 2^32.
int64_t WordBelow(uint32_t word, int64_t bound) {
  return static_cast<int64_t>((uint64_t{word} * static_cast<uint64_t>(bound)) >> 32);
}

// Copies a row, moved left by `dx` (right, where negative), zeros where nothing comes from.
void ShiftRow(const float* row, int64_t width, int64_t dx, float* out) {
  const int64_t begin = std::max<int64_t>(0, -dx);
  const int64_t end = std::min(width, width - dx);
  std::fill(out, out + begin, 0.0f);
  std::copy(row + begin + dx, row + end + dx, out + begin);
  std::fill(out + end, out + width, 0.0f);
}

}  // namespace

absl::StatusOr<Augmentation> ParseAugmentation(const std::string& text) {
  Augmentation augmentation;
  if (text.empty() || text == "none") return augmentation;
  SOAP_ASSIGN_OR_RETURN(const std::vector<Spec> specs, Spec::ParseList(text));
  for (const Spec& spec : specs) {
    if (spec.name == "crop") {
      SOAP_RETURN_IF_ERROR(spec.AllowOnly({"pad"}));
      SOAP_ASSIGN_OR_RETURN(augmentation.pad, spec.Int("pad", 4, 1, kPadMax));
    } else if (spec.name == "flip") {
      SOAP_RETURN_IF_ERROR(spec.AllowOnly({"p"}));
      SOAP_ASSIGN_OR_RETURN(augmentation.flip, spec.Real("p", 0.5, 0, 1));
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown augmentation '", spec.name,
                       "'; there are crop:pad=4 and flip:p=0.5, also joined by '+'"));
    }
  }
  return augmentation;
}

void Augment(const Augmentation& augmentation, const SampleKey& key, const ImageShape& shape,
             absl::Span<const float> image, absl::Span<float> out) {
  CHECK_EQ(static_cast<int64_t>(image.size()), shape.elements());
  CHECK_EQ(out.size(), image.size());
  CHECK_LT(augmentation.pad, std::min(shape.height, shape.width));
  const std::array<uint32_t, 4> bits =
      CounterRandom(key.seed, RandomUse::kAugmentation, key.epoch).Block(key.sample);
  const int64_t places = 2 * augmentation.pad + 1;
  const int64_t dy = WordBelow(bits[0], places) - augmentation.pad;
  const int64_t dx = WordBelow(bits[1], places) - augmentation.pad;
  const bool flip = static_cast<double>(bits[2]) < augmentation.flip * 0x1.0p32;
  for (int64_t c = 0; c < shape.channels; ++c) {
    for (int64_t y = 0; y < shape.height; ++y) {
      float* row = out.data() + (c * shape.height + y) * shape.width;
      const int64_t from = y + dy;
      if (from < 0 || from >= shape.height) {
        std::fill(row, row + shape.width, 0.0f);
        continue;
      }
      ShiftRow(image.data() + (c * shape.height + from) * shape.width, shape.width, dx, row);
      if (flip) std::reverse(row, row + shape.width);
    }
  }
}

}  // namespace soapstone::models
