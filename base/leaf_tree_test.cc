#include "base/leaf_tree.h"

#include <map>
#include <utility>

#include "gtest/gtest.h"

namespace soapstone {
namespace {

// A leaf whose sum shows the order of additions: magnitudes far apart, so that float addition is
// far from associative.
float Leaf(uint32_t j) {
  constexpr float kMagnitudes[] = {1e8f, 1.0f, -1e8f, 3e-3f, 7e5f};
  return kMagnitudes[j % 5] * (1.0f + 0.37f * static_cast<float>(j));
}

float SumDirectly(uint32_t lo, uint32_t hi) {
  if (hi - lo == 1) return Leaf(lo);
  const uint32_t mid = LeafSplit(lo, hi);
  return SumDirectly(lo, mid) + SumDirectly(mid, hi);
}

// As a shard does: the node's pushed sum where there is one, else the sum of its halves.
float SumOfNodes(MicroBatchRange node, const std::map<MicroBatchRange, float>& pushed) {
  const auto it = pushed.find(node);
  if (it != pushed.end()) return it->second;
  const uint32_t mid = LeafSplit(node.begin, node.end);
  return SumOfNodes({node.begin, mid}, pushed) + SumOfNodes({mid, node.end}, pushed);
}

TEST(LeafTree, SumHasTheSameBitsForAnyNumberOfWorkers) {
  for (uint32_t leaves = 1; leaves <= 9; ++leaves) {
    for (uint32_t workers = 1; workers <= 8; ++workers) {
      std::map<MicroBatchRange, float> pushed;
      for (uint32_t rank = 0; rank < workers; ++rank) {
        for (MicroBatchRange node : CanonicalNodes(LeavesOfRank(rank, workers, leaves), leaves)) {
          pushed[node] = SumDirectly(node.begin, node.end);
        }
      }
      EXPECT_EQ(SumOfNodes({0, leaves}, pushed), SumDirectly(0, leaves))
          << leaves << " leaves, " << workers << " workers";
    }
  }
}

TEST(LeafTree, SplitIsTheLargestPowerOfTwoBelow) {
  EXPECT_EQ(LeafSplit(0, 2), 1u);
  EXPECT_EQ(LeafSplit(0, 3), 2u);
  EXPECT_EQ(LeafSplit(0, 8), 4u);
  EXPECT_EQ(LeafSplit(4, 9), 8u);
}

TEST(LeafTree, CanonicalNodesCoverTheRangeInOrder) {
  for (uint32_t leaves = 1; leaves <= 9; ++leaves) {
    for (uint32_t begin = 0; begin < leaves; ++begin) {
      for (uint32_t end = begin + 1; end <= leaves; ++end) {
        uint32_t at = begin;
        for (MicroBatchRange node : CanonicalNodes({begin, end}, leaves)) {
          EXPECT_EQ(node.begin, at);
          EXPECT_TRUE(IsCanonicalNode(node, leaves));
          at = node.end;
        }
        EXPECT_EQ(at, end);
      }
    }
  }
}

TEST(LeafTree, WholeRangeIsOneNode) {
  for (uint32_t leaves = 1; leaves <= 9; ++leaves) {
    EXPECT_EQ(CanonicalNodes({0, leaves}, leaves).size(), 1u);
  }
}

TEST(LeafTree, EmptyRangeHasNoNodes) { EXPECT_TRUE(CanonicalNodes({3, 3}, 8).empty()); }

TEST(LeafTree, RangesAcrossASplitAreNotNodes) {
  EXPECT_FALSE(IsCanonicalNode({1, 3}, 4));
  EXPECT_FALSE(IsCanonicalNode({0, 3}, 4));
  EXPECT_FALSE(IsCanonicalNode({2, 2}, 4));
  EXPECT_FALSE(IsCanonicalNode({4, 6}, 5));
  EXPECT_TRUE(IsCanonicalNode({4, 5}, 5));
}

TEST(LeafTree, RanksShareTheLeavesEvenlyAndWithoutGaps) {
  for (uint32_t leaves = 1; leaves <= 9; ++leaves) {
    for (uint32_t workers = 1; workers <= 8; ++workers) {
      uint32_t at = 0;
      for (uint32_t rank = 0; rank < workers; ++rank) {
        const MicroBatchRange range = LeavesOfRank(rank, workers, leaves);
        EXPECT_EQ(range.begin, at);
        EXPECT_LE(range.size(), (leaves + workers - 1) / workers);
        at = range.end;
      }
      EXPECT_EQ(at, leaves);
    }
  }
}

TEST(LeafTree, LeavesShareTheSamplesWithoutGaps) {
  uint64_t at = 0;
  for (uint32_t leaf = 0; leaf < 7; ++leaf) {
    const SampleRange samples = SamplesOfLeaves({leaf, leaf + 1}, 7, 100);
    EXPECT_EQ(samples.begin, at);
    at = samples.end;
  }
  EXPECT_EQ(at, 100u);
}

}  // namespace
}  // namespace soapstone
