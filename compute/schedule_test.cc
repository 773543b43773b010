#include "compute/schedule.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

using ::testing::HasSubstr;

double Rate(std::string_view schedule, Clock clock, Clock total = 100) {
  return LearningRate({.lr = 2.0}, *ParseSchedule(schedule), clock, total);
}

std::string ScheduleErrorOf(std::string_view text) {
  return std::string(ParseSchedule(text).status().message());
}

TEST(Schedule, ConstantIsTheDefault) {
  EXPECT_EQ(*ParseSchedule(""), *ParseSchedule("constant"));
  EXPECT_EQ(Rate("", 57), 2.0);
}

TEST(Schedule, WarmupGrowsLinearlyToTheFullRate) {
  EXPECT_DOUBLE_EQ(Rate("constant:warmup=4", 0), 0.5);
  EXPECT_DOUBLE_EQ(Rate("constant:warmup=4", 3), 2.0);
  EXPECT_DOUBLE_EQ(Rate("constant:warmup=4", 4), 2.0);
}

TEST(Schedule, StepMultipliesAtEveryMultiple) {
  EXPECT_DOUBLE_EQ(Rate("step:every=10,factor=0.5", 9), 2.0);
  EXPECT_DOUBLE_EQ(Rate("step:every=10,factor=0.5", 10), 1.0);
  EXPECT_DOUBLE_EQ(Rate("step:every=10,factor=0.5", 20), 0.5);
}

TEST(Schedule, CosineGoesFromTheRateToItsMinimum) {
  EXPECT_DOUBLE_EQ(Rate("cosine:min=0.1", 0), 2.0);
  EXPECT_DOUBLE_EQ(Rate("cosine:min=0.1", 50), 1.1);
  EXPECT_DOUBLE_EQ(Rate("cosine:min=0.1", 100), 0.2);
}

TEST(Schedule, CosineStartsAfterWarmup) {
  EXPECT_DOUBLE_EQ(Rate("cosine:warmup=20", 20), 2.0);
  EXPECT_DOUBLE_EQ(Rate("cosine:warmup=20", 60), 1.0);
}

TEST(Schedule, CosineStaysAtItsMinimumPastTheEnd) {
  EXPECT_DOUBLE_EQ(Rate("cosine:min=0.1", 500), 0.2);
  EXPECT_DOUBLE_EQ(Rate("cosine:warmup=10", 30, 5), 0.0);
}

TEST(Schedule, ErrorsNameTheKnown) {
  EXPECT_THAT(ScheduleErrorOf("poly"), HasSubstr("known: constant, step, cosine"));
  EXPECT_THAT(ScheduleErrorOf("cosin"),
              HasSubstr("'cosin'; did you mean cosine?; known: constant"));
  EXPECT_THAT(ScheduleErrorOf("step:evry=3"), HasSubstr("'evry'; did you mean every?; it takes"));
  EXPECT_THAT(ScheduleErrorOf("cosine:every=3"), HasSubstr("unknown argument 'every'"));
  EXPECT_THAT(ScheduleErrorOf("step"), HasSubstr("every=CLOCKS is required"));
  EXPECT_THAT(ScheduleErrorOf("step:every=0"), HasSubstr("outside"));
}

}  // namespace
}  // namespace soapstone::compute
