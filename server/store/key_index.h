// KeyIndex: from a 64-bit key to the number of its row. server/store/sparse_table.h owns one; the
// keys themselves are the rows' (server/store/row_chunks.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "base/memory/page_block.h"
#include "server/store/row_chunks.h"

namespace soapstone::server {

// Extendible hashing (Fagin, Nievergelt, Pippenger, Strong, TODS 1979): the top bits of a key's
// hash choose an entry of the directory, which names a segment; a segment that is 7/8 full is split
// by the next bit. So growth costs one segment at a time, and what is held besides is the
// directory. A segment is 256 buckets of 16 slots, a bucket one line of the cache; the hash's low
// bits choose the bucket, and where it is full the next ones follow.
//
// A slot is 32 bits: 0 empty, 1 erased, else [1 | tag | row]: the row's number in the low row_bits
// of its segment, bits of the hash in what is left. With 10 million rows 128 different tags: of
// the slots that are not a key's, 1 in 128 has its row's key compared. As rows become more, tags
// become shorter.
//
// The hash mixes well and is not secret: who chooses keys for it can fill one segment, not more,
// and make look-ups there as slow as comparing its keys one by one.
// The directory never has more than about 16 entries a segment; an insertion that needs more is
// refused.
class KeyIndex {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFFu;

  // `salt`: another one, another order.
  explicit KeyIndex(uint64_t salt) : salt_(salt) {}

  uint64_t HashOf(uint64_t key) const {
    uint64_t x = key + salt_;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;  // splitmix64's finaliser (Steele et al. 2014)
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }
  // The same the other way round: keys for tests that want collisions.
  uint64_t KeyOf(uint64_t hash) const;

  bool empty() const { return segments_.empty(); }
  // Ask for the slots, then for the rows that they name, of a key that Find will look up.
  // REQUIRES: not empty.
  void PrefetchSlots(uint64_t hash) const;
  void PrefetchRows(const RowChunks& rows, uint64_t hash) const;

  // The row whose key it is, or kNone. REQUIRES: not empty.
  uint32_t Find(const RowChunks& rows, uint64_t hash, uint64_t key) const;

  // Makes room for a key that hashes to `hash`. Error: ResourceExhausted; nothing is lost.
  absl::Status MakeRoom(const RowChunks& rows, uint64_t hash);
  // REQUIRES: there is room; the key is in no slot, and is row number `row`'s in the rows by the
  // time room is made again.
  void Insert(uint64_t hash, uint32_t row);

  // REQUIRES: `row` was inserted with `hash`. What there was room for has room.
  void Erase(uint64_t hash, uint32_t row);

  uint64_t memory_bytes() const;

 private:
  struct Segment {
    uint32_t* slots = nullptr;  // [kSlots]
    uint16_t taken = 0;         // slots that are not empty
    uint16_t erased = 0;        // of those
    uint8_t depth = 0;          // bits of the hash that all its keys have in common
    uint8_t row_bits = 0;
  };
  size_t EntryOf(uint64_t hash) const { return hash >> 1 >> (63 - depth_); }
  const Segment& SegmentOf(uint64_t hash) const { return segments_[directory_[EntryOf(hash)]]; }
  bool AddSegment(uint32_t depth, const RowChunks& rows);
  absl::Status Split(const RowChunks& rows, uint64_t hash);
  void Spread(const RowChunks& rows, uint32_t low, uint32_t high);

  uint64_t salt_;
  uint32_t depth_ = 0;               // of the directory: 2^depth_ entries
  std::vector<uint32_t> directory_;  // numbers of segments
  std::vector<Segment> segments_;
  std::vector<PageBlock> blocks_;  // what segments' slots are in
  size_t last_block_used_ = 0;     // bytes
};

}  // namespace soapstone::server
