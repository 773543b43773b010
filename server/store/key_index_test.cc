#include "server/store/key_index.h"

#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "glog/logging.h"
#include "gtest/gtest.h"

namespace soapstone::server {
namespace {

// An index and its rows, with a plain map beside it.
class Indexed {
 public:
  bool Add(uint64_t key) {
    const uint64_t hash = index_.HashOf(key);
    if (!index_.MakeRoom(rows_, hash).ok()) return false;
    CHECK(rows_.Append(key));
    index_.Insert(hash, rows_.size() - 1);
    map_[key] = rows_.size() - 1;
    return true;
  }
  // The row of `key` becomes `next`'s.
  void Replace(uint64_t key, uint64_t next) {
    CHECK(index_.MakeRoom(rows_, index_.HashOf(next)).ok());
    const uint32_t row = map_.at(key);
    map_.erase(key);
    index_.Erase(index_.HashOf(key), row);
    rows_.set_key(row, next);
    index_.Insert(index_.HashOf(next), row);
    map_[next] = row;
  }
  // As if there were 2^31 rows.
  void Widen() {
    CHECK(index_.MakeRoom(rows_, 0).ok());
    index_.Insert(0, 0x7FFFFFFF);
    index_.Erase(0, 0x7FFFFFFF);
  }
  uint32_t Find(uint64_t key) const {
    index_.PrefetchSlots(index_.HashOf(key));
    index_.PrefetchRows(rows_, index_.HashOf(key));
    return index_.Find(rows_, index_.HashOf(key), key);
  }
  void ExpectAll() const {
    for (const auto& [key, row] : map_) ASSERT_EQ(Find(key), row) << key;
  }
  const KeyIndex& index() const { return index_; }
  const RowChunks& rows() const { return rows_; }

 private:
  RowChunks rows_{{.floats = 1}};
  KeyIndex index_{77};
  std::unordered_map<uint64_t, uint32_t> map_;
};

TEST(KeyIndex, KeyOfIsTheOtherWayRound) {
  const KeyIndex index(123);
  const CounterRandom random(1, RandomUse::kTest);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(index.KeyOf(index.HashOf(random.Bits(i))), random.Bits(i));
  }
}

// Over several splits, and beyond 2^16 rows, where tags become shorter.
TEST(KeyIndex, FindsWhatWasInsertedAndNothingElse) {
  Indexed indexed;
  const CounterRandom random(2, RandomUse::kTest);
  for (uint64_t i = 0; i < 150'000; ++i) ASSERT_TRUE(indexed.Add(random.Bits(i)));
  indexed.ExpectAll();
  for (uint64_t i = 150'000; i < 300'000; ++i) {
    ASSERT_EQ(indexed.Find(random.Bits(i)), KeyIndex::kNone);
  }
}

TEST(KeyIndex, KeysInARowSpreadAsWell) {
  Indexed indexed;
  for (uint64_t key = 0; key < 100'000; ++key) ASSERT_TRUE(indexed.Add(key << 12));
  indexed.ExpectAll();
  EXPECT_LT(indexed.index().memory_bytes(), 12u * 100'000);
}

TEST(KeyIndex, ReplacedKeysAreGoneAndTheOthersStay) {
  Indexed indexed;
  const CounterRandom random(3, RandomUse::kTest);
  constexpr uint64_t kRows = 10'000;
  for (uint64_t i = 0; i < kRows; ++i) ASSERT_TRUE(indexed.Add(random.Bits(i)));
  for (uint64_t i = 0; i < 20 * kRows; ++i) {
    indexed.Replace(random.Bits(i), random.Bits(i + kRows));
    ASSERT_EQ(indexed.Find(random.Bits(i)), KeyIndex::kNone);
  }
  indexed.ExpectAll();
}

// One bucket of one segment, full many times over.
TEST(KeyIndex, KeysOfOneBucketOverflowIntoTheNext) {
  Indexed indexed;
  for (uint64_t i = 0; i < 2000; ++i) {
    ASSERT_TRUE(indexed.Add(indexed.index().KeyOf(((i * 0x9E3779B97F4A7C15u) << 8) | 0xFE)));
  }
  indexed.ExpectAll();
  EXPECT_EQ(indexed.Find(indexed.index().KeyOf(0xFE)), 0u);
  EXPECT_EQ(indexed.Find(indexed.index().KeyOf((uint64_t{1} << 40) | 0xFE)), KeyIndex::kNone);
}

// Whoever knows the hash can fill one segment. It is told no; memory stays bounded, and other keys
// have room.
TEST(KeyIndex, KeysChosenToCollideAreRefused) {
  Indexed indexed;
  uint64_t added = 0;
  while (added < 100'000 && indexed.Add(indexed.index().KeyOf(added))) ++added;
  EXPECT_GE(added, 3584u);
  EXPECT_LT(added, 10'000u);
  EXPECT_LT(indexed.index().memory_bytes(), 1u << 20);
  indexed.ExpectAll();
  for (uint64_t i = 512; i < 1024; ++i) {
    ASSERT_TRUE(indexed.Add(indexed.index().KeyOf((i << 54) | 1)));
  }
  indexed.ExpectAll();
}

// A row's number may take all bits of a slot but one: then every key of the bucket is compared.
TEST(KeyIndex, FindsKeysWithoutTags) {
  Indexed indexed;
  const CounterRandom random(4, RandomUse::kTest);
  for (uint64_t i = 0; i < 3000; ++i) ASSERT_TRUE(indexed.Add(random.Bits(i)));
  indexed.Widen();
  indexed.ExpectAll();
  for (uint64_t i = 3000; i < 20'000; ++i) ASSERT_TRUE(indexed.Add(random.Bits(i)));
  indexed.ExpectAll();
}

}  // namespace
}  // namespace soapstone::server
