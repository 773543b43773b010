#include "models/data/permutation.h"

#include <numeric>
#include <utility>

namespace soapstone::models {

std::vector<uint64_t> Permutation(const CounterRandom& random, uint64_t n) {
  std::vector<uint64_t> order(n);
  std::iota(order.begin(), order.end(), uint64_t{0});
  for (uint64_t i = n; i-- > 1;) std::swap(order[i], order[random.Below(i, i + 1)]);
  return order;
}

}  // namespace soapstone::models
