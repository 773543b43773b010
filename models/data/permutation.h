// Seeded permutations: of an epoch's samples (sampler), of a data set to be split (dataset).
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace soapstone::models {

// A permutation of 0..n-1, a function of the random stream and n alone (Fisher and Yates; draw i
// places element i).
std::vector<uint64_t> Permutation(const CounterRandom& random, uint64_t n);

}  // namespace soapstone::models
