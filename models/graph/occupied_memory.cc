#include "models/graph/occupied_memory.h"

#include <algorithm>

#include "glog/logging.h"

namespace soapstone::models {

void ByteRanges::Add(size_t begin, size_t end) {
  // The first that touches the new one, and the first behind it that does not.
  const auto from = std::lower_bound(ranges_.begin(), ranges_.end(), begin,
                                     [](const Range& r, size_t at) { return r.end < at; });
  const auto to = std::upper_bound(from, ranges_.end(), end,
                                   [](size_t at, const Range& r) { return at < r.begin; });
  if (from == to) {
    ranges_.insert(from, {begin, end});
    return;
  }
  from->begin = std::min(from->begin, begin);
  from->end = std::max(std::prev(to)->end, end);
  ranges_.erase(std::next(from), to);
}

OccupiedMemory::OccupiedMemory(uint32_t nodes) {
  while (size_ < nodes) size_ *= 2;
  tree_.resize(2 * static_cast<size_t>(size_));
}

void OccupiedMemory::Collect(size_t node, uint32_t begin, uint32_t end, uint32_t first,
                             uint32_t last) {
  const TreeNode& here = tree_[node];
  // Nothing below is taken where `within`, which holds all of it, is empty.
  if (last < begin || end <= first || here.within.ranges().empty()) return;
  if (first <= begin && end <= last + 1) {
    cursors_.push_back({&here.within.ranges()});
    return;
  }
  if (!here.throughout.ranges().empty()) cursors_.push_back({&here.throughout.ranges()});
  const uint32_t middle = begin + (end - begin) / 2;
  Collect(2 * node, begin, middle, first, last);
  Collect(2 * node + 1, middle, end, first, last);
}

size_t OccupiedMemory::LowestFree(uint32_t first, uint32_t last, size_t bytes) {
  CHECK_LE(first, last);
  CHECK_LT(last, size_);
  cursors_.clear();
  Collect(1, 0, size_, first, last);
  size_t offset = 0;
  for (size_t agreed = 0, i = 0; agreed < cursors_.size(); i = (i + 1) % cursors_.size()) {
    Cursor& cursor = cursors_[i];
    const size_t before = offset;
    const std::vector<ByteRanges::Range>& ranges = *cursor.ranges;
    // Gaps that are too narrow are passed at once.
    while (cursor.next < ranges.size() && ranges[cursor.next].begin < offset + bytes) {
      offset = std::max(offset, ranges[cursor.next].end);
      ++cursor.next;
    }
    agreed = offset == before ? agreed + 1 : 1;
  }
  return offset;
}

void OccupiedMemory::Insert(size_t node, uint32_t begin, uint32_t end, uint32_t first,
                            uint32_t last, ByteRanges::Range range) {
  if (last < begin || end <= first) return;
  tree_[node].within.Add(range.begin, range.end);
  if (first <= begin && end <= last + 1) {
    tree_[node].throughout.Add(range.begin, range.end);
    return;
  }
  const uint32_t middle = begin + (end - begin) / 2;
  Insert(2 * node, begin, middle, first, last, range);
  Insert(2 * node + 1, middle, end, first, last, range);
}

void OccupiedMemory::Take(uint32_t first, uint32_t last, size_t begin, size_t end) {
  CHECK_LE(first, last);
  CHECK_LT(last, size_);
  Insert(1, 0, size_, first, last, {begin, end});
}

}  // namespace soapstone::models
