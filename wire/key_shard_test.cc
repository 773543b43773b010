#include "wire/key_shard.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace soapstone::wire {
namespace {

// The most that a shard has of keys begin, begin + stride, ..., by the mean.
double Worst(uint32_t shards, uint64_t begin, uint64_t stride, uint32_t table = 0) {
  constexpr uint64_t kKeys = 100'000;
  std::vector<uint64_t> counts(shards);
  for (uint64_t i = 0; i < kKeys; ++i) {
    ++counts[Index(ShardOfKey(table, begin + i * stride, shards))];
  }
  return static_cast<double>(*std::max_element(counts.begin(), counts.end())) * shards / kKeys;
}

// bench/key_balance_test.cc has keys that are drawn, some often.
TEST(ShardOfKey, SpreadsKeysThatFollowEachOther) {
  for (const uint32_t shards : {1, 2, 3, 4, 7, 8, 16, 64}) {
    for (const uint64_t stride : {uint64_t{1}, uint64_t{64}, uint64_t{1} << 32}) {
      EXPECT_LT(Worst(shards, 0, stride), 1.1) << shards << " " << stride;
      EXPECT_LT(Worst(shards, uint64_t{5} << 48, stride), 1.1) << shards << " " << stride;
    }
  }
}

TEST(ShardOfKey, TablesAreSpreadApart) {
  constexpr uint32_t kShards = 8;
  uint64_t same = 0;
  for (uint64_t key = 0; key < 8000; ++key) {
    if (ShardOfKey(1, key, kShards) == ShardOfKey(2, key, kShards)) ++same;
  }
  EXPECT_NEAR(static_cast<double>(same), 1000, 150);
}

TEST(ShardOfKey, OneShardHasAll) {
  for (uint64_t key = 0; key < 100; ++key) EXPECT_EQ(ShardOfKey(3, key << 57, 1), ShardId{0});
}

// Saved tables and running peers depend on it.
TEST(ShardOfKey, IsWhatItWas) {
  EXPECT_EQ(ShardOfKey(0, 0, 1000), ShardId{894});
  EXPECT_EQ(ShardOfKey(0, 1, 1000), ShardId{398});
  EXPECT_EQ(ShardOfKey(7, 123456789, 1000), ShardId{775});
}

}  // namespace
}  // namespace soapstone::wire
