// How even the load of shards is when some keys are used much more often than others: the balance
// that wire/key_shard.h has to give.
#include <algorithm>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "bench/zipf.h"
#include "gtest/gtest.h"
#include "wire/key_shard.h"

namespace soapstone::bench {
namespace {

constexpr uint64_t kKeys = 10'000'000, kDraws = 1'000'000;
constexpr size_t kBatch = 4096;

double WorstByMean(const std::vector<uint64_t>& rows) {
  uint64_t sum = 0;
  for (const uint64_t n : rows) sum += n;
  return static_cast<double>(*std::max_element(rows.begin(), rows.end())) *
         static_cast<double>(rows.size()) / static_cast<double>(sum);
}

// Rows that each shard gets of Zipf 1.1 draws; combined: a key once a batch, as a worker sends it.
std::vector<uint64_t> RowsOfShards(uint32_t shards, uint32_t table, bool combined) {
  Zipf zipf(kKeys, 1.1, 17);
  std::vector<uint64_t> rows(shards);
  std::unordered_set<uint64_t> batch;
  for (uint64_t i = 0; i < kDraws; ++i) {
    if (i % kBatch == 0) batch.clear();
    const uint64_t key = zipf.KeyOf(zipf.Draw());
    if (!batch.insert(key).second && combined) continue;
    ++rows[Index(wire::ShardOfKey(table, key, shards))];
  }
  return rows;
}

TEST(KeyBalance, ZipfKeysCombinedAreWithinOneAndAHalfOfTheMean) {
  for (const uint32_t shards : {2, 4, 8, 16}) {
    for (const uint32_t table : {0, 1, 2}) {
      const double worst = WorstByMean(RowsOfShards(shards, table, true));
      EXPECT_LE(worst, 1.5) << shards << " shards, table " << table;
    }
  }
}

// What combining is for: of the draws themselves the most frequent key alone has an eighth, more
// than 16 shards can share evenly.
TEST(KeyBalance, ZipfKeysNotCombinedAreNot) {
  EXPECT_GT(WorstByMean(RowsOfShards(16, 0, false)), 1.5);
}

TEST(KeyBalance, UniformKeysAreWithinATenthOfTheMean) {
  for (const uint32_t shards : {2, 4, 8, 16}) {
    std::vector<uint64_t> rows(shards);
    const CounterRandom random(3, RandomUse::kTest);
    for (uint64_t i = 0; i < kDraws; ++i) {
      ++rows[Index(wire::ShardOfKey(0, random.Below(i, kKeys), shards))];
    }
    EXPECT_LE(WorstByMean(rows), 1.1) << shards;
  }
}

}  // namespace
}  // namespace soapstone::bench
