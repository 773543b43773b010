#include "models/runtime/confusion.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::models {
namespace {

TEST(Confusion, TheFirstOfTheLargestLogitsCounts) {
  Confusion confusion = EmptyConfusion(3);
  CountConfusion({0, 1, 0, 2, 2, 1, -3, -1, -2, 0, 0, 1}, {1, 1, 0, 7}, &confusion);
  EXPECT_EQ(confusion, (Confusion{{0, 1, 0}, {1, 1, 0}, {0, 0, 0}}));
}

TEST(Confusion, ComesBackFromItsFrames) {
  const Confusion confusion = {{5, 1}, {0, 70'000}};
  EXPECT_EQ(*ConfusionOf(FramesOf(confusion)), confusion);
  EXPECT_TRUE(ConfusionOf({})->empty());
}

TEST(Confusion, OtherFramesAreRefused) {
  EXPECT_FALSE(ConfusionOf({Buffer::CopyOf("abcd"), Buffer::CopyOf("abcd")}).ok());
  EXPECT_FALSE(ConfusionOf({Buffer::CopyOf("abc")}).ok());
  EXPECT_FALSE(ConfusionOf({Buffer()}).ok());
  EXPECT_FALSE(ConfusionOf(Buffers(kConfusionClassesMax + 1)).ok());
}

TEST(Confusion, BalancedAccuracyIsTheMeanOfRecalls) {
  EXPECT_DOUBLE_EQ(BalancedAccuracy({{90, 0}, {10, 0}}), 0.5);
  EXPECT_DOUBLE_EQ(BalancedAccuracy({{3, 1}, {0, 4}}), 0.875);
  EXPECT_DOUBLE_EQ(BalancedAccuracy({{3, 1, 0}, {0, 4, 0}, {0, 0, 0}}), 0.875);
  EXPECT_DOUBLE_EQ(BalancedAccuracy({{0}}), 0);
}

}  // namespace
}  // namespace soapstone::models
