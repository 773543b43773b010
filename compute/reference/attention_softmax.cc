#include "compute/reference/attention_softmax.h"

#include <algorithm>
#include <cmath>

namespace soapstone::compute {

Reals AttentionSoftmax(const Reals& a) {
  const double largest = *std::max_element(a.begin(), a.end());
  Reals p(a.size());
  double sum = 0;
  for (size_t s = 0; s < a.size(); ++s) sum += p[s] = std::exp(a[s] - largest);
  for (double& v : p) v /= sum;
  return p;
}

Reals AttentionSoftmaxGrad(const Reals& p, const Reals& dp) {
  double mean = 0;
  for (size_t s = 0; s < p.size(); ++s) mean += p[s] * dp[s];
  Reals da(p.size());
  for (size_t s = 0; s < p.size(); ++s) da[s] = p[s] * (dp[s] - mean);
  return da;
}

}  // namespace soapstone::compute
