// RowChunks: the rows of a sparse table and what belongs to each, by row number, in chunks that
// never move. Rows are added, and one's key replaced, never removed. server/store/sparse_table.h,
// its index and who captures it are its users; it knows nothing of what the floats mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/memory/page_block.h"

namespace soapstone::server {

struct RowShape {
  uint32_t floats = 0;
  bool steps = false;  // rows count their gradients
  bool used = false;   // rows remember whether they were used
  bool sums = false;   // rows have a checksum
};

// Where rows are. A chunk holds, for a power of two of rows: [rows, floats] f32, [rows, 1, 2 or 4]
// u64 of key, steps and checksum, [rows / 64] u64 of used bits. Keys are beside rows and not in
// them: a row of 16 floats is then one line of the cache, and keys that are compared in vain cost
// no more.
//
// A copy is of the rows that there are now, and is good for as long as the chunks live.
class RowPlaces {
 public:
  explicit RowPlaces(const RowShape& shape);

  uint32_t size() const { return size_; }

  // Of row number `row` < size().
  float* floats(uint32_t row) const {
    return reinterpret_cast<float*>(ChunkOf(row)) + static_cast<size_t>(InChunk(row)) * floats_;
  }
  uint64_t key(uint32_t row) const { return *KeyAt(row); }
  void set_key(uint32_t row, uint64_t key) { *KeyAt(row) = key; }
  // REQUIRES: shape.steps.
  uint64_t& steps(uint32_t row) const { return KeyAt(row)[1]; }
  // REQUIRES: shape.sums.
  uint64_t& sum(uint32_t row) const { return KeyAt(row)[sum_at_]; }
  // REQUIRES, these three: shape.used. The word holds the bits of 64 rows, from a multiple of 64.
  void set_used(uint32_t row) { used_word(row) |= uint64_t{1} << (row % 64); }
  bool used(uint32_t row) const { return ((used_word(row) >> (row % 64)) & 1) != 0; }
  uint64_t& used_word(uint32_t row) const {
    return *(reinterpret_cast<uint64_t*>(ChunkOf(row) + used_at_) + InChunk(row) / 64);
  }

  void PrefetchKey(uint32_t row) const { __builtin_prefetch(KeyAt(row), 1); }
  void PrefetchFloats(uint32_t row) const;

 protected:
  std::byte* ChunkOf(uint32_t row) const { return chunks_[row >> chunk_shift_]; }
  uint32_t InChunk(uint32_t row) const { return row & ((uint32_t{1} << chunk_shift_) - 1); }
  uint64_t* KeyAt(uint32_t row) const {
    return reinterpret_cast<uint64_t*>(ChunkOf(row) + keys_at_) + (InChunk(row) << key_shift_);
  }

  uint32_t floats_;
  uint32_t sum_at_;       // among the words of a key
  uint32_t key_shift_;    // words of a key, its steps and its sum: 1 << key_shift_
  uint32_t chunk_shift_;  // rows of a chunk: 1 << chunk_shift_
  size_t row_bytes_;      // with key and steps
  size_t keys_at_, used_at_, chunk_bytes_;
  std::vector<std::byte*> chunks_;
  uint32_t size_ = 0;
};

class RowChunks : public RowPlaces {
 public:
  explicit RowChunks(const RowShape& shape) : RowPlaces(shape) {}

  uint64_t memory_bytes() const;

  // A row of zeros more, with the number size(). False: no memory.
  bool Append(uint64_t key);

 private:
  std::vector<PageBlock> pages_;  // a chunk each
};

}  // namespace soapstone::server
