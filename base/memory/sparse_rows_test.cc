#include "base/memory/sparse_rows.h"

#include <cstring>

#include "gtest/gtest.h"

namespace soapstone {
namespace {

TEST(SparseRowsTest, SumsRowsOfBothAndKeepsTheOthers) {
  const SparseRows a = {{1, 5, 9}, {1, 2, 3, 4, 5, 6}};
  const SparseRows b = {{0, 5, 10}, {7, 8, 10, 20, 9, 9}};
  const SparseRows sum = SumOf(a, b, 2);
  EXPECT_EQ(sum.keys, (std::vector<uint64_t>{0, 1, 5, 9, 10}));
  EXPECT_EQ(sum.rows, (std::vector<float>{7, 8, 1, 2, 13, 24, 5, 6, 9, 9}));
  EXPECT_EQ(SumOf(a, {}, 2), a);
  EXPECT_EQ(SumOf({}, b, 2), b);
  EXPECT_EQ(SumOf({}, {}, 2), SparseRows());
}

TEST(SparseRowsTest, KeysOfAnUnalignedFrameAreCopied) {
  const uint64_t keys[] = {3, 4, ~uint64_t{0}};
  std::vector<std::byte> bytes(sizeof(keys) + 4);
  std::memcpy(bytes.data() + 4, keys, sizeof(keys));
  const Buffer aligned = Buffer::CopyOf(keys, sizeof(keys));
  const Buffer whole = Buffer::CopyOf(bytes.data(), bytes.size());
  std::vector<uint64_t> scratch;
  EXPECT_EQ(KeysOf(aligned, &scratch).data(), reinterpret_cast<const uint64_t*>(aligned.data()));
  const auto copied = KeysOf(whole.Slice(4, sizeof(keys)), &scratch);
  EXPECT_EQ(copied.data(), scratch.data());
  EXPECT_EQ(std::vector<uint64_t>(copied.begin(), copied.end()),
            std::vector<uint64_t>(std::begin(keys), std::end(keys)));
  EXPECT_TRUE(KeysOf(Buffer(), &scratch).empty());
}

TEST(SparseRowsTest, TellsWhetherKeysAscend) {
  EXPECT_TRUE(AscendStrictly({}));
  EXPECT_TRUE(AscendStrictly({0, 1, ~uint64_t{0}}));
  EXPECT_FALSE(AscendStrictly({1, 1}));
  EXPECT_FALSE(AscendStrictly({2, 1}));
}

}  // namespace
}  // namespace soapstone
