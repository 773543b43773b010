#include "server/store/row_chunks.h"

#include <algorithm>
#include <utility>

#include "glog/logging.h"

namespace soapstone::server {
namespace {

// 2^18 rows of any multiple of 8 bytes are whole huge pages.
constexpr uint32_t kChunkShiftMax = 18, kChunkShiftMin = 6;
constexpr size_t kChunkBytesWanted = size_t{32} << 20;
constexpr size_t kLine = 64;
constexpr size_t kLinesPrefetched = 4;  // the processor sees where the rest is

}  // namespace

RowPlaces::RowPlaces(const RowShape& shape)
    : floats_(shape.floats),
      sum_at_(shape.steps ? 2 : 1),
      key_shift_((shape.steps ? 1 : 0) + (shape.sums ? 1 : 0)),
      chunk_shift_(kChunkShiftMax) {
  CHECK_GT(floats_, 0u);
  const size_t key_bytes = sizeof(uint64_t) << key_shift_;
  row_bytes_ = floats_ * sizeof(float) + key_bytes;
  while (chunk_shift_ > kChunkShiftMin && row_bytes_ << chunk_shift_ > kChunkBytesWanted) {
    --chunk_shift_;
  }
  keys_at_ = (floats_ * sizeof(float)) << chunk_shift_;
  used_at_ = keys_at_ + (key_bytes << chunk_shift_);
  chunk_bytes_ = used_at_ + (shape.used ? (size_t{1} << chunk_shift_) / 8 : 0);
}

uint64_t RowChunks::memory_bytes() const {
  const uint64_t pages =
      pages_.capacity() * sizeof(PageBlock) + chunks_.capacity() * sizeof(std::byte*);
  if (pages_.empty()) return pages;
  // The last chunk holds what has been touched.
  const uint64_t full = pages_.size() - 1;
  return pages + full * pages_.front().size() + (size_ - (full << chunk_shift_)) * row_bytes_ +
         (chunk_bytes_ - used_at_);
}

bool RowChunks::Append(uint64_t key) {
  if (size_ >> chunk_shift_ == chunks_.size()) {
    // The first chunk of a small table takes no more than its rows do.
    PageBlock chunk = PageBlock::Map(chunk_bytes_, !chunks_.empty());
    if (chunk.empty()) return false;
    chunks_.push_back(chunk.data());
    pages_.push_back(std::move(chunk));
  }
  size_ += 1;
  set_key(size_ - 1, key);
  return true;
}

void RowPlaces::PrefetchFloats(uint32_t row) const {
  const auto* at = reinterpret_cast<const std::byte*>(floats(row));
  const size_t bytes = std::min(floats_ * sizeof(float), kLinesPrefetched * kLine);
  for (size_t i = 0; i < bytes; i += kLine) __builtin_prefetch(at + i, 1);
}

}  // namespace soapstone::server
