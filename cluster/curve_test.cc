#include "cluster/curve.h"

#include "gtest/gtest.h"

namespace soapstone::experiment {
namespace {

const std::vector<CurvePoint>& Curve() {
  static const auto* const curve =
      new std::vector<CurvePoint>{{.time_s = 1, .test_accuracy = 0.2, .bytes = 100},
                                  {.time_s = 2, .test_accuracy = 0.6, .bytes = 300},
                                  {.time_s = 4, .test_accuracy = 0.5, .bytes = 500},
                                  {.time_s = 5, .test_accuracy = 0.9, .bytes = 600},
                                  {.time_s = 6, .test_accuracy = 0.8, .bytes = 700},
                                  {.time_s = 7, .test_accuracy = 0.95, .bytes = 800}};
  return *curve;
}

TEST(TimeToAccuracyTest, IsLinearBetweenTheFirstPointAboveAndTheOneBefore) {
  EXPECT_NEAR(TimeToAccuracy(Curve(), 0.4).value(), 1.5, 1e-12);
  EXPECT_NEAR(TimeToAccuracy(Curve(), 0.7).value(), 4.5, 1e-12);
  EXPECT_NEAR(
      SpentUntil(Curve(), 0.4, [](const auto& p) { return static_cast<double>(p.bytes); }).value(),
      200, 1e-9);
}

TEST(TimeToAccuracyTest, ACrossingCountsOnceItHolds) {
  EXPECT_NEAR(TimeToAccuracy(Curve(), 0.6).value(), 4.25, 1e-12);  // not the one at 2 s
  EXPECT_FALSE(TimeToAccuracy(Curve(), 0.85).has_value());         // twice, not in a row
  EXPECT_FALSE(TimeToAccuracy(Curve(), 0.92).has_value());         // one point, the last
}

TEST(TimeToAccuracyTest, OfAShortCurveAllPointsMustHold) {
  const std::vector<CurvePoint> two = {Curve()[1], Curve()[3]};
  EXPECT_EQ(TimeToAccuracy(two, 0.6), 2);
  EXPECT_FALSE(TimeToAccuracy(two, 0.7).has_value());
}

TEST(TimeToAccuracyTest, KnowsNothingBeforeTheFirstPoint) {
  EXPECT_EQ(TimeToAccuracy(Curve(), 0.1), 1);
}

TEST(TimeToAccuracyTest, IsEmptyWhereNoPointIsThatGood) {
  EXPECT_FALSE(TimeToAccuracy(Curve(), 0.96).has_value());
  EXPECT_FALSE(TimeToAccuracy({}, 0).has_value());
}

TEST(CurveCsvTest, HasALineAPoint) {
  EXPECT_EQ(CurveCsv({{.time_s = 0.5,
                       .samples = 10,
                       .train_loss = 2,
                       .test_loss = 1.5,
                       .test_accuracy = 0.25,
                       .bytes = 7}}),
            "time_s,samples,train_loss,test_loss,test_accuracy,bytes\n"
            "0.500000000,10,2,1.5,0.250000,7\n");
}

}  // namespace
}  // namespace soapstone::experiment
