// The fixed summation tree over the micro-batches of one global batch.
//
// Floating-point sums depend on their order. To make a step's gradient sum the same bits for any
// number of workers, the M micro-batches ("leaves") of a global batch are summed along one binary
// tree that depends on M alone:
//     T(lo, hi) = leaf lo                          if hi - lo == 1
//               = T(lo, mid) + T(mid, hi)          mid = lo + 2^(ceil(log2(hi - lo)) - 1)
// A worker that owns a range of leaves sums the tree's nodes that lie inside it; the shard sums
// the rest. Who calls: worker programs (which nodes to push), bsp (is a step covered), the store
// (summing). Knows nothing of tensors.
#pragma once

#include <vector>

#include "base/ids.h"

namespace soapstone {

// Where T(lo, hi) splits. REQUIRES hi - lo >= 2.
uint32_t LeafSplit(uint32_t lo, uint32_t hi);

// The fewest tree nodes of T(0, leaf_count) that cover `range` exactly, in order.
std::vector<MicroBatchRange> CanonicalNodes(MicroBatchRange range, uint32_t leaf_count);

// True where `node` is a node of T(0, leaf_count).
bool IsCanonicalNode(MicroBatchRange node, uint32_t leaf_count);

// Leaves of worker `rank` of `count`: [rank*M/count, (rank+1)*M/count). REQUIRES rank < count.
MicroBatchRange LeavesOfRank(uint32_t rank, uint32_t count, uint32_t leaf_count);

// Samples of leaf j of a global batch of n samples: positions [j*n/M, (j+1)*n/M).
struct SampleRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
};
SampleRange SamplesOfLeaves(MicroBatchRange leaves, uint32_t leaf_count, uint64_t batch_samples);

// How many nodes of the tree inside `node` are completed by leaf `leaf`: those of two leaves or
// more that end with it. A sum in progress, leaf by leaf, adds so many times the top of its stack
// to what lies below.
uint32_t NodesCompletedBy(uint32_t leaf, MicroBatchRange node);

}  // namespace soapstone
