// Softmax with cross-entropy. Plain loops: the rows are short, and their order is fixed.
// Called by models/replica; knows nothing of batches larger than what it is given.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace soapstone::compute {

struct LossSums {
  double loss = 0;      // Σ over the samples of −log p[label]
  int64_t correct = 0;  // samples whose largest logit (the first of equals) is the label's
};

// logits: [N, classes] f32; labels: [N], each in [0, classes); grad: [N, classes] f32, written
// with ∂(Σ loss)/∂logits, or empty where not wanted.
LossSums SoftmaxCrossEntropy(absl::Span<const float> logits, absl::Span<const int32_t> labels,
                             absl::Span<float> grad);

}  // namespace soapstone::compute
