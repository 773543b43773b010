#include "consistency/peers/collective_schedule.h"

#include <map>
#include <numeric>

#include "gtest/gtest.h"

namespace soapstone::consistency {
namespace {

struct Outcome {
  std::vector<std::vector<int64_t>> values;  // by rank
  std::vector<uint64_t> sent;                // elements, by rank
  std::vector<uint64_t> sent_outside;        // of which to another group
};

// Runs all ranks' hops hop by hop, as the messages would have it.
Outcome Play(uint32_t ranks, uint32_t group, uint64_t elements) {
  Outcome outcome{.sent = std::vector<uint64_t>(ranks), .sent_outside = outcome.sent};
  std::vector<std::vector<Hop>> hops;
  for (uint32_t r = 0; r < ranks; ++r) {
    hops.push_back(AllReduceHops(r, ranks, group, {0, elements}));
    std::vector<int64_t> values(elements);
    for (uint64_t e = 0; e < elements; ++e) values[e] = static_cast<int64_t>(e * 100 + r);
    outcome.values.push_back(values);
  }
  for (size_t step = 0; step < hops[0].size(); ++step) {
    const auto before = outcome.values;
    for (uint32_t r = 0; r < ranks; ++r) {
      const Hop& hop = hops[r][step];
      const Hop& theirs = hops[hop.from][step];
      EXPECT_EQ(theirs.to, r);
      EXPECT_EQ(theirs.send, hop.receive);
      outcome.sent[r] += hop.send.size();
      if (group > 1 && hop.to / group != r / group) outcome.sent_outside[r] += hop.send.size();
      for (uint64_t e = hop.receive.begin; e < hop.receive.end; ++e) {
        outcome.values[r][e] = before[hop.from][e] + (hop.add ? before[r][e] : 0);
      }
    }
  }
  return outcome;
}

void ExpectSums(const Outcome& outcome, uint32_t ranks, uint64_t elements) {
  for (const std::vector<int64_t>& values : outcome.values) {
    for (uint64_t e = 0; e < elements; ++e) {
      EXPECT_EQ(values[e], static_cast<int64_t>(e * 100 * ranks + ranks * (ranks - 1) / 2));
    }
  }
}

TEST(CollectiveScheduleTest, RingSumsAndItsBytesAreExact) {
  for (uint32_t ranks = 1; ranks <= 9; ++ranks) {
    for (uint64_t elements = 0; elements <= 40; ++elements) {
      const Outcome outcome = Play(ranks, 0, elements);
      ExpectSums(outcome, ranks, elements);
      for (uint32_t r = 0; r < ranks; ++r) {
        const ElementRange all = {0, elements};
        const uint64_t due =
            2 * elements - ChunkOf(all, r + 1, ranks).size() - ChunkOf(all, r + 2, ranks).size();
        EXPECT_EQ(outcome.sent[r], due) << ranks << " ranks, " << elements << " elements";
      }
      const uint64_t total = std::accumulate(outcome.sent.begin(), outcome.sent.end(), uint64_t{0});
      EXPECT_EQ(total, 2 * (ranks - 1) * elements);
    }
  }
}

// Between groups: 2 (M / G) (n - 1) / n a rank, n groups of G.
TEST(CollectiveScheduleTest, HierarchicalSumsAndSendsLessBetweenGroups) {
  for (const auto& [ranks, group] : {std::pair{4u, 2u}, {6u, 2u}, {6u, 3u}, {8u, 4u}, {9u, 3u}}) {
    for (uint64_t elements : {0, 1, 5, 36, 72, 77}) {
      const Outcome outcome = Play(ranks, group, elements);
      ExpectSums(outcome, ranks, elements);
      if (elements != 72) continue;
      const uint64_t groups = ranks / group;
      for (uint32_t r = 0; r < ranks; ++r) {
        EXPECT_EQ(outcome.sent_outside[r], 2 * (elements / group) * (groups - 1) / groups);
      }
    }
  }
}

TEST(CollectiveScheduleTest, AGroupThatDoesNotDivideIsAFlatRing) {
  EXPECT_EQ(AllReduceHops(1, 7, 2, {0, 70}), AllReduceHops(1, 7, 0, {0, 70}));
  EXPECT_EQ(AllReduceHops(1, 4, 4, {0, 70}), AllReduceHops(1, 4, 0, {0, 70}));
}

TEST(CollectiveScheduleTest, ChunksPartitionAnyRange) {
  const uint64_t large = uint64_t{1} << 62;
  for (const ElementRange range : {ElementRange{0, 7}, {3, 3}, {5, large}}) {
    uint64_t at = range.begin;
    for (uint32_t c = 0; c < 5; ++c) {
      const ElementRange chunk = ChunkOf(range, c, 5);
      EXPECT_EQ(chunk.begin, at);
      at = chunk.end;
    }
    EXPECT_EQ(at, range.end);
  }
}

}  // namespace
}  // namespace soapstone::consistency
