// SparseRows: rows of a table by 64-bit key, as they are pulled, pushed and summed. Workers combine
// what a mini-batch gives a key, shards sum contributions of several workers. Knows nothing of
// tables' storage.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/memory/buffer.h"

namespace soapstone {

// Invariant: keys ascend, each once; rows: [keys, dim] f32.
struct SparseRows {
  std::vector<uint64_t> keys;
  std::vector<float> rows;
  friend bool operator==(const SparseRows&, const SparseRows&) = default;
};

// Rows of both; of a key in both, a's row + b's. So a tree of sums has, element by element, the
// bits of the same tree over dense rows, as long as no element that is missing would be -0.
SparseRows SumOf(const SparseRows& a, const SparseRows& b, uint32_t dim);

// The keys of a frame, 8 bytes each, little-endian. Where they are not aligned they are copied to
// `scratch`, which the result then views. REQUIRES: size divides by 8.
absl::Span<const uint64_t> KeysOf(const Buffer& frame, std::vector<uint64_t>* scratch);

bool AscendStrictly(absl::Span<const uint64_t> keys);

}  // namespace soapstone
