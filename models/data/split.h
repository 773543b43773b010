// Splits: which samples of a data set are held out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace soapstone::models {

// Indexes of samples, ascending; each sample is in one of them.
struct SplitIndexes {
  std::vector<uint64_t> train;
  std::vector<uint64_t> test;
};

// How many of n are held out: a share of `fraction`, at least one, not all.
// Errors: InvalidArgument for a fraction outside (0, 1), and for n < 2 (with the path).
absl::StatusOr<uint64_t> HeldOutCount(const std::string& path, uint64_t n, double fraction);

// Of the samples in a seeded random order, the first are held out. Errors as above.
absl::StatusOr<SplitIndexes> SplitSamples(const std::string& path, uint64_t n, double fraction,
                                          uint64_t seed);

}  // namespace soapstone::models
