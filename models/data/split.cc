#include "models/data/split.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "models/data/permutation.h"

namespace soapstone::models {

absl::StatusOr<uint64_t> HeldOutCount(const std::string& path, uint64_t n, double fraction) {
  if (!(fraction > 0 && fraction < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("test_fraction ", fraction, " is not between 0 and 1 (both excluded)"));
  }
  if (n < 2) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": too few samples to hold any out"));
  }
  const uint64_t wanted = std::llround(fraction * static_cast<double>(n));
  return std::clamp<uint64_t>(wanted, 1, n - 1);
}

absl::StatusOr<SplitIndexes> SplitSamples(const std::string& path, uint64_t n, double fraction,
                                          uint64_t seed) {
  SOAP_ASSIGN_OR_RETURN(const uint64_t held_out, HeldOutCount(path, n, fraction));
  const std::vector<uint64_t> order = Permutation(CounterRandom(seed, RandomUse::kSplit), n);
  const auto middle = order.begin() + static_cast<ptrdiff_t>(held_out);
  SplitIndexes out{.train = {middle, order.end()}, .test = {order.begin(), middle}};
  std::sort(out.train.begin(), out.train.end());
  std::sort(out.test.begin(), out.test.end());
  return out;
}

}  // namespace soapstone::models
