// Which bytes of a block of memory are in use during which nodes of a step, to find the lowest
// place that is free for a while. Used by the memory plan alone; knows nothing of values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace soapstone::models {

// Bytes in use: disjoint ranges, ascending, merged where they touch.
class ByteRanges {
 public:
  struct Range {
    size_t begin = 0, end = 0;
  };
  void Add(size_t begin, size_t end);
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

// A segment tree over the nodes of a step (Bentley 1977, "Solutions to Klee's rectangle problems").
// What is taken from one node to another is kept whole in the at most 2·log t tree nodes that just
// make up that time. Bytes in use at some time in an interval are then the union of few lists:
// `within` of the tree nodes that make it up, and `throughout` of all above them.
// Threading: one thread.
class OccupiedMemory {
 public:
  // nodes: of the step, at least 1.
  explicit OccupiedMemory(uint32_t nodes);

  // The least offset from which `bytes` > 0 are free from node `first` to node `last`, both
  // included.
  size_t LowestFree(uint32_t first, uint32_t last, size_t bytes);
  void Take(uint32_t first, uint32_t last, size_t begin, size_t end);

 private:
  struct TreeNode {
    ByteRanges
        throughout;     // by what was taken for all of the node's time, and not for its parent's
    ByteRanges within;  // by what was taken for some of it, and not for its parent's
  };
  // One of the lists that a search looks through; `next` moves up with the offset.
  struct Cursor {
    const std::vector<ByteRanges::Range>* ranges = nullptr;
    size_t next = 0;
  };
  void Collect(size_t node, uint32_t begin, uint32_t end, uint32_t first, uint32_t last);
  void Insert(size_t node, uint32_t begin, uint32_t end, uint32_t first, uint32_t last,
              ByteRanges::Range range);

  uint32_t size_ = 1;           // leaves: a power of two
  std::vector<TreeNode> tree_;  // tree_[1] is the root, tree_[2·i] and tree_[2·i + 1] are below i
  std::vector<Cursor> cursors_;
};

}  // namespace soapstone::models
