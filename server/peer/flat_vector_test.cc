#include "server/peer/flat_vector.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace soapstone::server {
namespace {

constexpr uint64_t kElements = 24;

class FlatVectorTest : public ::testing::Test {
 protected:
  static Buffer Of(const std::vector<float>& values) {
    return Buffer::CopyOf(absl::MakeConstSpan(values));
  }
  std::vector<float> Dense(ElementRange range) {
    const Buffer whole = vector_.Read(range, &pool_);
    return {whole.floats().begin(), whole.floats().end()};
  }

  BufferPool pool_;
  FlatVector<float> vector_{kElements};
};

TEST_F(FlatVectorTest, IsZeroWhereNothingIs) {
  EXPECT_TRUE(vector_.zero());
  vector_.Set({2, 4}, Of({1, 2}));
  EXPECT_EQ(Dense({0, 6}), (std::vector<float>{0, 0, 1, 2, 0, 0}));
  vector_.Clear();
  EXPECT_EQ(Dense({1, 3}), (std::vector<float>{0, 0}));
}

// What is taken or wanted in one piece is not copied.
TEST_F(FlatVectorTest, PartsAreViews) {
  const Buffer parcel = Of({1, 2, 3, 4});
  vector_.Add({4, 8}, parcel, 1, &pool_);
  EXPECT_EQ(vector_.Read({4, 8}, &pool_).data(), parcel.data());
  EXPECT_EQ(vector_.Read({5, 7}, &pool_).data(), parcel.data() + sizeof(float));
  EXPECT_NE(vector_.Read({3, 8}, &pool_).data(), parcel.data());
}

TEST_F(FlatVectorTest, ViewsAreOfPartsWhereTheyHaveAll) {
  const Buffer left = Of({1, 2, 3}), right = Of({4, 5});
  vector_.Set({1, 4}, left);
  vector_.Set({4, 6}, right);
  const Buffers views = vector_.Views({2, 6}, &pool_);
  ASSERT_EQ(views.size(), 2u);
  EXPECT_EQ(views[0].data(), left.data() + sizeof(float));
  EXPECT_EQ(views[1].data(), right.data());
  ASSERT_EQ(vector_.Views({0, 6}, &pool_).size(), 1u);
  EXPECT_EQ(vector_.Views({0, 6}, &pool_)[0].floats()[0], 0);
  EXPECT_TRUE(vector_.Views({3, 3}, &pool_).empty());
}

// Others have views of a part: adding to it writes elsewhere.
TEST_F(FlatVectorTest, NoPartIsChanged) {
  const Buffer parcel = Of({1, 2});
  vector_.Set({0, 2}, parcel);
  const Buffer before = vector_.Read({0, 2}, &pool_);
  FlatVector<float> copy = vector_;
  vector_.Add({0, 2}, Of({5, 5}), 2, &pool_);
  EXPECT_EQ(Dense({0, 2}), (std::vector<float>{11, 12}));
  EXPECT_EQ(before.floats()[0], 1);
  EXPECT_EQ(parcel.floats()[1], 2);
  EXPECT_EQ(copy.Read({0, 2}, &pool_).floats()[1], 2);
}

// Beside a plain array, 2,000 times.
TEST_F(FlatVectorTest, IsWhatAnArrayIs) {
  std::vector<float> plain(kElements, 0);
  const CounterRandom random(7, RandomUse::kPartner);
  for (uint64_t i = 0; i < 2000; ++i) {
    const uint64_t begin = random.Below(4 * i, kElements);
    const uint64_t end = begin + random.Below(4 * i + 1, kElements - begin + 1);
    const auto factor = static_cast<float>(1 + random.Below(4 * i + 2, 3));
    std::vector<float> values(end - begin);
    for (size_t e = 0; e < values.size(); ++e) values[e] = static_cast<float>((i + e) % 13);
    switch (random.Below(4 * i + 3, 16)) {
      case 0:
        vector_.Clear();
        plain.assign(kElements, 0);
        break;
      case 1:
      case 2:
      case 3:
        vector_.Set({begin, end}, Of(values));
        std::copy(values.begin(), values.end(), plain.begin() + static_cast<ptrdiff_t>(begin));
        break;
      default:
        // Small whole numbers: sums are exact until they are cleared.
        vector_.Add({begin, end}, Of(values), factor, &pool_);
        for (size_t e = 0; e < values.size(); ++e) plain[begin + e] += factor * values[e];
        break;
    }
    ASSERT_EQ(Dense({0, kElements}), plain) << i;
    ASSERT_EQ(Dense({begin, end}), std::vector<float>(plain.begin() + static_cast<ptrdiff_t>(begin),
                                                      plain.begin() + static_cast<ptrdiff_t>(end)));
    uint64_t after = 0;
    for (const auto& part : vector_.parts()) {
      ASSERT_LE(after, part.range.begin);
      ASSERT_LT(part.range.begin, part.range.end);
      ASSERT_EQ(part.view.size(), part.range.size() * sizeof(float));
      after = part.range.end;
    }
  }
}

}  // namespace
}  // namespace soapstone::server
