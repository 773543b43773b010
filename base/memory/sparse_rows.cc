#include "base/memory/sparse_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

namespace soapstone {

static_assert(std::endian::native == std::endian::little, "keys travel little-endian");

SparseRows SumOf(const SparseRows& a, const SparseRows& b, uint32_t dim) {
  SparseRows sum;
  sum.keys.reserve(a.keys.size() + b.keys.size());
  sum.rows.reserve(a.rows.size() + b.rows.size());
  const auto append = [&](const SparseRows& from, size_t i) {
    const auto row = from.rows.begin() + static_cast<ptrdiff_t>(i * dim);
    sum.rows.insert(sum.rows.end(), row, row + dim);
  };
  size_t i = 0;
  size_t j = 0;
  while (i < a.keys.size() || j < b.keys.size()) {
    const bool of_a = i < a.keys.size() && (j == b.keys.size() || a.keys[i] <= b.keys[j]);
    const bool of_b = j < b.keys.size() && (i == a.keys.size() || b.keys[j] <= a.keys[i]);
    sum.keys.push_back(of_a ? a.keys[i] : b.keys[j]);
    append(of_a ? a : b, of_a ? i : j);
    if (of_a && of_b) {
      float* row = sum.rows.data() + sum.rows.size() - dim;
      for (uint32_t e = 0; e < dim; ++e) row[e] += b.rows[j * dim + e];
    }
    i += of_a ? 1 : 0;
    j += of_b ? 1 : 0;
  }
  return sum;
}

absl::Span<const uint64_t> KeysOf(const Buffer& frame, std::vector<uint64_t>* scratch) {
  const size_t count = frame.size() / sizeof(uint64_t);
  if (reinterpret_cast<uintptr_t>(frame.data()) % alignof(uint64_t) == 0) {
    return {reinterpret_cast<const uint64_t*>(frame.data()), count};
  }
  scratch->resize(count);
  if (count > 0) std::memcpy(scratch->data(), frame.data(), count * sizeof(uint64_t));
  return *scratch;
}

bool AscendStrictly(absl::Span<const uint64_t> keys) {
  return std::adjacent_find(keys.begin(), keys.end(), std::greater_equal<>()) == keys.end();
}

}  // namespace soapstone
