#include "base/histogram.h"

#include <limits>

#include "gtest/gtest.h"

namespace soapstone {
namespace {

TEST(Histogram, EveryBucketHoldsWhatItsBoundsSay) {
  for (size_t i = 0; i + 1 < Histogram::kBuckets; ++i) {
    EXPECT_EQ(Histogram::BucketOf(Histogram::First(i)), i);
    EXPECT_EQ(Histogram::BucketOf(Histogram::First(i + 1) - 1), i);
  }
  EXPECT_EQ(Histogram::First(Histogram::kBuckets - 1), 65'536u);
  EXPECT_EQ(Histogram::BucketOf(std::numeric_limits<uint64_t>::max()), Histogram::kBuckets - 1);
}

TEST(Histogram, CountsAndKeepsTheGreatest) {
  Histogram histogram;
  for (const uint64_t value : {0, 3, 3, 40, 1'000'000}) histogram.Add(value);
  EXPECT_EQ(histogram.count(), 5u);
  EXPECT_EQ(histogram.CountIn(3), 2u);
  EXPECT_EQ(histogram.CountIn(Histogram::BucketOf(63)), 1u);
  EXPECT_EQ(histogram.max(), 1'000'000u);
}

TEST(Histogram, SumsAreThoseOfAllValues) {
  Histogram both, first, second;
  for (const uint64_t value : {1, 17}) {
    first.Add(value);
    both.Add(value);
  }
  for (const uint64_t value : {1, 99}) {
    second.Add(value);
    both.Add(value);
  }
  first.Add(second);
  EXPECT_EQ(first, both);
}

}  // namespace
}  // namespace soapstone
