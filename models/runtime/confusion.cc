#include "models/runtime/confusion.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace soapstone::models {

Confusion EmptyConfusion(int64_t classes) {
  const auto n = static_cast<size_t>(classes);
  return Confusion(n, std::vector<uint32_t>(n));
}

void CountConfusion(absl::Span<const float> logits, absl::Span<const int32_t> labels,
                    Confusion* confusion) {
  const size_t classes = confusion->size();
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || static_cast<size_t>(labels[i]) >= classes) continue;
    const absl::Span<const float> x = logits.subspan(i * classes, classes);
    const auto largest = std::max_element(x.begin(), x.end());
    ++(*confusion)[static_cast<size_t>(labels[i])][static_cast<size_t>(largest - x.begin())];
  }
}

Buffers FramesOf(const Confusion& confusion) {
  Buffers frames;
  for (const std::vector<uint32_t>& of_label : confusion) {
    frames.push_back(Buffer::CopyOf<uint32_t>(of_label));
  }
  return frames;
}

absl::StatusOr<Confusion> ConfusionOf(const Buffers& frames) {
  Confusion confusion = EmptyConfusion(0);
  if (frames.size() > static_cast<size_t>(kConfusionClassesMax)) {
    return absl::InvalidArgumentError(absl::StrCat("confusion: ", frames.size(), " classes"));
  }
  for (const Buffer& frame : frames) {
    if (frame.size() != frames.size() * sizeof(uint32_t)) {
      return absl::InvalidArgumentError(
          absl::StrCat("confusion: ", frame.size(), " bytes for ", frames.size(), " classes"));
    }
    confusion.emplace_back(frames.size());
    std::memcpy(confusion.back().data(), frame.data(), frame.size());
  }
  return confusion;
}

double BalancedAccuracy(const Confusion& confusion) {
  double sum = 0;
  size_t classes = 0;
  for (size_t k = 0; k < confusion.size(); ++k) {
    const std::vector<uint32_t>& taken = confusion[k];
    const uint64_t samples = std::accumulate(taken.begin(), taken.end(), uint64_t{0});
    if (samples == 0) continue;
    sum += static_cast<double>(taken[k]) / static_cast<double>(samples);
    ++classes;
  }
  return classes == 0 ? 0 : sum / static_cast<double>(classes);
}

}  // namespace soapstone::models
