// Confusion: how many samples of each class were taken for which, as one evaluation of a classifier
// finds it. Counted by executors, said by reports; its frames travel with the worker's evaluation.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/memory/buffer.h"

namespace soapstone::models {

// [classes][classes]: by the samples' label, by the class that they were taken for. None: not of a
// classifier, or of one with more than kConfusionClassesMax classes.
using Confusion = std::vector<std::vector<uint32_t>>;

inline constexpr int64_t kConfusionClassesMax = 1024;

// Of no samples.
Confusion EmptyConfusion(int64_t classes);

// Counts n samples, each taken for the first of its largest logits, as those are that the loss
// counts as right. logits: [n, classes]; labels: [n], those that are no class are left out.
void CountConfusion(absl::Span<const float> logits, absl::Span<const int32_t> labels,
                    Confusion* confusion);

// A frame a class: [classes] u32, little-endian.
Buffers FramesOf(const Confusion& confusion);
// Error: InvalidArgument, where these are not as many frames as a frame has counts.
absl::StatusOr<Confusion> ConfusionOf(const Buffers& frames);

// The mean, over the classes that have samples, of the share of a class's samples that were taken
// for it (the mean of recalls; Brodersen et al., ICPR 2010). A classifier that always says the same
// has 1 / classes, however many samples are of it. 0 without samples.
double BalancedAccuracy(const Confusion& confusion);

}  // namespace soapstone::models
