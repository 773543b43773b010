#include "compute/loss.h"

#include <cmath>
#include <cstddef>

#include "glog/logging.h"

namespace soapstone::compute {

// z: a row of logits, y its label, M = max z, S = Σ_k exp(z_k − M):
//   loss = log S − (z_y − M)
//   ∂loss/∂z_k = exp(z_k − M)/S − [k = y]
LossSums SoftmaxCrossEntropy(absl::Span<const float> logits, absl::Span<const int32_t> labels,
                             absl::Span<float> grad) {
  LossSums sums;
  if (labels.empty()) return sums;
  CHECK_EQ(logits.size() % labels.size(), 0u);
  CHECK(grad.empty() || grad.size() == logits.size());
  const size_t classes = logits.size() / labels.size();
  for (size_t n = 0; n < labels.size(); ++n) {
    const float* z = logits.data() + n * classes;  // [classes]
    const size_t y = static_cast<size_t>(labels[n]);
    CHECK_LT(y, classes);
    size_t best = 0;
    for (size_t k = 1; k < classes; ++k) {
      if (z[k] > z[best]) best = k;
    }
    const double m = z[best];
    double s = 0;
    for (size_t k = 0; k < classes; ++k) s += std::exp(z[k] - m);
    sums.loss += std::log(s) - (z[y] - m);
    sums.correct += best == y ? 1 : 0;
    if (grad.empty()) continue;
    float* g = grad.data() + n * classes;  // [classes]
    for (size_t k = 0; k < classes; ++k) {
      g[k] = static_cast<float>(std::exp(z[k] - m) / s - (k == y ? 1.0 : 0.0));
    }
  }
  return sums;
}

}  // namespace soapstone::compute
