#include "base/leaf_tree.h"

#include <bit>

#include "glog/logging.h"

namespace soapstone {
namespace {

void Cover(MicroBatchRange range, MicroBatchRange node, std::vector<MicroBatchRange>* out) {
  if (node.begin >= range.end || node.end <= range.begin) return;
  if (node.begin >= range.begin && node.end <= range.end) {
    out->push_back(node);
    return;
  }
  const uint32_t mid = LeafSplit(node.begin, node.end);
  Cover(range, {node.begin, mid}, out);
  Cover(range, {mid, node.end}, out);
}

}  // namespace

uint32_t LeafSplit(uint32_t lo, uint32_t hi) {
  DCHECK_GE(hi - lo, 2u);
  return lo + (std::bit_ceil(hi - lo) >> 1);
}

std::vector<MicroBatchRange> CanonicalNodes(MicroBatchRange range, uint32_t leaf_count) {
  std::vector<MicroBatchRange> nodes;
  if (!range.empty() && leaf_count > 0) Cover(range, {0, leaf_count}, &nodes);
  return nodes;
}

bool IsCanonicalNode(MicroBatchRange node, uint32_t leaf_count) {
  if (node.empty() || node.end > leaf_count) return false;
  MicroBatchRange at = {0, leaf_count};
  while (at != node) {
    if (at.size() < 2) return false;
    const uint32_t mid = LeafSplit(at.begin, at.end);
    if (node.end <= mid) {
      at.end = mid;
    } else if (node.begin >= mid) {
      at.begin = mid;
    } else {
      return false;
    }
  }
  return true;
}

MicroBatchRange LeavesOfRank(uint32_t rank, uint32_t count, uint32_t leaf_count) {
  DCHECK_LT(rank, count);
  return {static_cast<uint32_t>(uint64_t{rank} * leaf_count / count),
          static_cast<uint32_t>((uint64_t{rank} + 1) * leaf_count / count)};
}

SampleRange SamplesOfLeaves(MicroBatchRange leaves, uint32_t leaf_count, uint64_t batch_samples) {
  return {leaves.begin * batch_samples / leaf_count, leaves.end * batch_samples / leaf_count};
}

uint32_t NodesCompletedBy(uint32_t leaf, MicroBatchRange node) {
  uint32_t completed = 0;
  while (node.size() >= 2) {
    if (node.end == leaf + 1) ++completed;
    const uint32_t mid = LeafSplit(node.begin, node.end);
    if (leaf < mid) {
      node.end = mid;
    } else {
      node.begin = mid;
    }
  }
  return completed;
}

}  // namespace soapstone
