#include "server/store/key_index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace soapstone::server {
namespace {

constexpr size_t kBucket = 16;  // slots
constexpr size_t kBuckets = 256;
constexpr size_t kSlots = kBucket * kBuckets;
constexpr size_t kSlotsFull = kSlots / 8 * 7;
constexpr size_t kSegmentBytes = kSlots * sizeof(uint32_t);
constexpr size_t kSegmentsInBlock = PageBlock::kHugePage / kSegmentBytes;
constexpr uint32_t kEmptySlot = 0, kErasedSlot = 1, kTakenBit = 0x80000000u;
constexpr uint32_t kRowBitsMin = 16, kRowBitsMax = 31;

size_t BucketOf(uint64_t hash) { return hash % kBuckets; }

// What a slot of `hash` has above its row's bits.
uint32_t TagOf(uint64_t hash) {
  return kTakenBit | (static_cast<uint32_t>(hash >> 8) & ~kTakenBit);
}

uint32_t RowMask(uint32_t row_bits) { return (uint32_t{1} << row_bits) - 1; }

uint8_t RowBitsFor(uint32_t rows) {
  return static_cast<uint8_t>(std::clamp<uint32_t>(std::bit_width(rows), kRowBitsMin, kRowBitsMax));
}

// Bit i of these masks: slot i of the bucket.
#if defined(__SSE2__)
__m128i Load(const uint32_t* slots) {
  return _mm_load_si128(reinterpret_cast<const __m128i*>(slots));
}

template <typename Test>
uint32_t MaskOf(const uint32_t* bucket, const Test& test) {
  const __m128i low = _mm_packs_epi32(test(Load(bucket)), test(Load(bucket + 4)));
  const __m128i high = _mm_packs_epi32(test(Load(bucket + 8)), test(Load(bucket + 12)));
  return static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
}

uint32_t TagMatches(const uint32_t* bucket, uint32_t tag, uint32_t row_bits) {
  const __m128i wanted = _mm_set1_epi32(static_cast<int>(tag));
  const __m128i bits = _mm_cvtsi32_si128(static_cast<int>(row_bits));
  return MaskOf(bucket, [&](__m128i slots) {
    const __m128i differs = _mm_srl_epi32(_mm_xor_si128(slots, wanted), bits);
    return _mm_cmpeq_epi32(differs, _mm_setzero_si128());
  });
}

uint32_t SlotsEqual(const uint32_t* bucket, uint32_t value) {
  const __m128i wanted = _mm_set1_epi32(static_cast<int>(value));
  return MaskOf(bucket, [&](__m128i slots) { return _mm_cmpeq_epi32(slots, wanted); });
}

uint32_t SlotsFree(const uint32_t* bucket) {
  return MaskOf(bucket, [&](__m128i slots) {
    return _mm_cmpgt_epi32(slots, _mm_set1_epi32(-1));  // the taken bit is the sign
  });
}
#else
template <typename Test>
uint32_t MaskOf(const uint32_t* bucket, const Test& test) {
  uint32_t mask = 0;
  for (size_t i = 0; i < kBucket; ++i) mask |= static_cast<uint32_t>(test(bucket[i])) << i;
  return mask;
}

uint32_t TagMatches(const uint32_t* bucket, uint32_t tag, uint32_t row_bits) {
  return MaskOf(bucket, [&](uint32_t slot) { return ((slot ^ tag) >> row_bits) == 0; });
}

uint32_t SlotsEqual(const uint32_t* bucket, uint32_t value) {
  return MaskOf(bucket, [&](uint32_t slot) { return slot == value; });
}

uint32_t SlotsFree(const uint32_t* bucket) {
  return MaskOf(bucket, [&](uint32_t slot) { return (slot & kTakenBit) == 0; });
}
#endif

// One bit fewer of tag in every slot: the row's number gets it.
void Widen(uint32_t* slots, uint32_t row_bits) {
  const uint32_t row_mask = RowMask(row_bits), tag_mask = ~RowMask(row_bits + 1);
  for (size_t i = 0; i < kSlots; ++i) {
    if ((slots[i] & kTakenBit) != 0) slots[i] = (slots[i] & tag_mask) | (slots[i] & row_mask);
  }
}

// Into the first free slot; true if it was empty. REQUIRES: there is one.
bool Place(uint32_t* slots, uint64_t hash, uint32_t row_bits, uint32_t row) {
  for (size_t at = BucketOf(hash);; at = (at + 1) % kBuckets) {
    uint32_t* bucket = slots + at * kBucket;
    const uint32_t free = SlotsFree(bucket);
    if (free == 0) continue;
    uint32_t& slot = bucket[std::countr_zero(free)];
    const bool was_empty = slot == kEmptySlot;
    slot = (TagOf(hash) & ~RowMask(row_bits)) | row;
    return was_empty;
  }
}

// x ^ (x >> shift) = y
uint64_t UndoShift(uint64_t y, int shift) {
  uint64_t x = y;
  for (int done = shift; done < 64; done += shift) x = y ^ (x >> shift);
  return x;
}

}  // namespace

uint64_t KeyIndex::KeyOf(uint64_t hash) const {
  // Inverses modulo 2^64 of HashOf's factors, by Newton's iteration.
  const auto inverse = [](uint64_t factor) {
    uint64_t x = factor;
    for (int i = 0; i < 6; ++i) x *= 2 - factor * x;
    return x;
  };
  uint64_t x = UndoShift(hash, 31) * inverse(0x94D049BB133111EBu);
  x = UndoShift(x, 27) * inverse(0xBF58476D1CE4E5B9u);
  return UndoShift(x, 30) - salt_;
}

void KeyIndex::PrefetchSlots(uint64_t hash) const {
  __builtin_prefetch(SegmentOf(hash).slots + BucketOf(hash) * kBucket);
}

void KeyIndex::PrefetchRows(const RowChunks& rows, uint64_t hash) const {
  const Segment& segment = SegmentOf(hash);
  const uint32_t* bucket = segment.slots + BucketOf(hash) * kBucket;
  uint32_t mask = TagMatches(bucket, TagOf(hash), segment.row_bits);
  if (mask != 0) {
    rows.PrefetchFloats(bucket[std::countr_zero(mask)] & RowMask(segment.row_bits));
  }
  for (; mask != 0; mask &= mask - 1) {
    rows.PrefetchKey(bucket[std::countr_zero(mask)] & RowMask(segment.row_bits));
  }
}

uint32_t KeyIndex::Find(const RowChunks& rows, uint64_t hash, uint64_t key) const {
  const Segment& segment = SegmentOf(hash);
  const uint32_t tag = TagOf(hash);
  for (size_t at = BucketOf(hash);; at = (at + 1) % kBuckets) {
    const uint32_t* bucket = segment.slots + at * kBucket;
    for (uint32_t m = TagMatches(bucket, tag, segment.row_bits); m != 0; m &= m - 1) {
      const uint32_t row = bucket[std::countr_zero(m)] & RowMask(segment.row_bits);
      if (rows.key(row) == key) return row;
    }
    // Nothing has passed a bucket that has an empty slot: see Erase.
    if (SlotsEqual(bucket, kEmptySlot) != 0) return kNone;
  }
}

absl::Status KeyIndex::MakeRoom(const RowChunks& rows, uint64_t hash) {
  if (segments_.empty()) {
    if (!AddSegment(0, rows)) return absl::ResourceExhaustedError("no memory for a table's index");
    directory_ = {0};
  }
  while (SegmentOf(hash).taken >= kSlotsFull) {
    const uint32_t number = directory_[EntryOf(hash)];
    // Where many were erased there is room without a split.
    if (segments_[number].erased >= kSlotsFull / 8) {
      Spread(rows, number, number);
    } else if (absl::Status split = Split(rows, hash); !split.ok()) {
      return split;
    }
  }
  return absl::OkStatus();
}

void KeyIndex::Insert(uint64_t hash, uint32_t row) {
  Segment& segment = segments_[directory_[EntryOf(hash)]];
  CHECK_LT(segment.taken, kSlots);
  CHECK_EQ(row >> kRowBitsMax, 0u);
  for (; row >> segment.row_bits != 0; ++segment.row_bits) Widen(segment.slots, segment.row_bits);
  if (Place(segment.slots, hash, segment.row_bits, row)) {
    segment.taken += 1;
  } else {
    segment.erased -= 1;
  }
}

// A bucket without an empty slot may have been passed by a key that is in one after it, so there
// the slot stays taken. One with an empty slot never was full, and is passed by none.
void KeyIndex::Erase(uint64_t hash, uint32_t row) {
  Segment& segment = segments_[directory_[EntryOf(hash)]];
  const uint32_t slot = (TagOf(hash) & ~RowMask(segment.row_bits)) | row;
  for (size_t at = BucketOf(hash), passed = 0;; at = (at + 1) % kBuckets, ++passed) {
    CHECK_LT(passed, kBuckets) << "row " << row << " is not in the index";
    uint32_t* bucket = segment.slots + at * kBucket;
    const uint32_t found = SlotsEqual(bucket, slot);
    if (found == 0) continue;
    const bool was_full = SlotsEqual(bucket, kEmptySlot) == 0;
    bucket[std::countr_zero(found)] = was_full ? kErasedSlot : kEmptySlot;
    if (was_full) {
      segment.erased += 1;
    } else {
      segment.taken -= 1;
    }
    return;
  }
}

bool KeyIndex::AddSegment(uint32_t depth, const RowChunks& rows) {
  if (blocks_.empty() || last_block_used_ == blocks_.back().size()) {
    // By an eighth, so that a small table has a small index.
    const size_t segments = std::clamp<size_t>(segments_.size() / 8, 1, kSegmentsInBlock);
    PageBlock block = PageBlock::Map(segments * kSegmentBytes, segments == kSegmentsInBlock);
    if (block.empty()) return false;
    blocks_.push_back(std::move(block));
    last_block_used_ = 0;
  }
  auto* slots = reinterpret_cast<uint32_t*>(blocks_.back().data() + last_block_used_);
  last_block_used_ += kSegmentBytes;
  segments_.push_back(
      {.slots = slots, .depth = static_cast<uint8_t>(depth), .row_bits = RowBitsFor(rows.size())});
  return true;
}

absl::Status KeyIndex::Split(const RowChunks& rows, uint64_t hash) {
  const uint32_t low = directory_[EntryOf(hash)];
  const uint32_t depth = segments_[low].depth;
  if (depth == depth_) {
    if (directory_.size() >= 8 * (segments_.size() + 4)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("keys collide: more than ", kSlotsFull,
                       " of them have the same hash as far as a table of ", rows.size(),
                       " rows looks; they were chosen so, and are refused"));
    }
    std::vector<uint32_t> twice(2 * directory_.size());
    for (size_t i = 0; i < twice.size(); ++i) twice[i] = directory_[i / 2];
    directory_ = std::move(twice);
    ++depth_;
  }
  if (!AddSegment(depth + 1, rows)) {
    return absl::ResourceExhaustedError("no memory for a table's index");
  }
  const uint32_t high = static_cast<uint32_t>(segments_.size() - 1);
  segments_[low].depth += 1;
  // The entries of a segment follow each other; the upper half is the new one's.
  const size_t entries = size_t{1} << (depth_ - depth);
  const size_t begin = EntryOf(hash) / entries * entries;
  std::fill_n(directory_.begin() + static_cast<ptrdiff_t>(begin + entries / 2), entries / 2, high);
  Spread(rows, low, high);
  return absl::OkStatus();
}

// What is in `low` anew, into it and, where the directory says so, into `high`, which is empty.
void KeyIndex::Spread(const RowChunks& rows, uint32_t low, uint32_t high) {
  std::array<uint32_t, kSlots> all;
  size_t count = 0;
  for (size_t i = 0; i < kSlots; ++i) {
    uint32_t& slot = segments_[low].slots[i];
    if ((slot & kTakenBit) != 0) all[count++] = slot & RowMask(segments_[low].row_bits);
    slot = kEmptySlot;
  }
  for (const uint32_t number : {low, high}) {
    segments_[number].taken = 0;
    segments_[number].erased = 0;
    segments_[number].row_bits = RowBitsFor(rows.size());
  }
  constexpr size_t kAhead = 16;
  for (size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) rows.PrefetchKey(all[i + kAhead]);
    const uint64_t hash = HashOf(rows.key(all[i]));
    Segment& segment = segments_[directory_[EntryOf(hash)]];
    Place(segment.slots, hash, segment.row_bits, all[i]);
    segment.taken += 1;
  }
}

uint64_t KeyIndex::memory_bytes() const {
  uint64_t bytes = directory_.capacity() * sizeof(uint32_t) +
                   segments_.capacity() * sizeof(Segment) + blocks_.capacity() * sizeof(PageBlock);
  for (const PageBlock& block : blocks_) bytes += block.size();
  return bytes;
}

}  // namespace soapstone::server
