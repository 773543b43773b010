#include "apps/report/result_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace soapstone::apps {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Sparkline, GoesFromTheLeastToTheGreatest) {
  EXPECT_EQ(Sparkline({8, 7, 6, 5, 4, 3, 2, 1, 0}, true), "██▇▆▅▄▃▂▁");
  EXPECT_EQ(Sparkline({0, 1, 2, 3, 4, 5, 6, 7}, false), "_.:-=+*#");
  EXPECT_EQ(Sparkline({}, true), "");
}

TEST(Sparkline, NumbersOfAnyKind) {
  EXPECT_EQ(Sparkline({2, 2, 2}, false), "___");
  EXPECT_EQ(Sparkline({1, std::nan(""), kInfinity, 0}, false), "#??_");
  EXPECT_EQ(Sparkline({std::nan("")}, true), "?");
  EXPECT_EQ(Sparkline({1e308, -1e308, 0}, false), "#_=");
}

TEST(ConfusionText, HasARowALabel) {
  EXPECT_EQ(ConfusionText({{35, 0}, {1, 120}}, {}),
            "        0   1\n"
            "    0  35   0\n"
            "    1   1 120\n");
  EXPECT_EQ(ConfusionText({{1, 0}, {0, 2}}, {"Bär", "dog\n"}),
            "            0 1\n"
            "    0 Bär   1 0\n"
            "    1 dog\\n 0 2\n");
}

TEST(ConfusionText, LongNamesAreCutBetweenCharacters) {
  const std::string text = ConfusionText({{1}}, {std::string(23, 'x') + "ä"});
  EXPECT_EQ(text, std::string(4 + 2 + 23, ' ') + " 0\n    0 " + std::string(23, 'x') + " 1\n");
}

TEST(ConfusionCsv, NamesAreQuotedWhereTheyMustBe) {
  EXPECT_EQ(ConfusionCsv({{1, 2}, {3, 4}}, {}), "label,0,1\n0,1,2\n1,3,4\n");
  EXPECT_EQ(ConfusionCsv({{1, 2}, {3, 4}}, {"a,b", "\"c\""}),
            "label,\"a,b\",\"\"\"c\"\"\"\n\"a,b\",1,2\n\"\"\"c\"\"\",3,4\n");
}

TEST(LossHistory, HasAStretchAReading) {
  LossHistory history;
  history.Take(0, 0);
  EXPECT_TRUE(history.Points().empty());
  history.Take(10, 20);
  history.Take(10, 20);
  history.Take(30, 40);
  EXPECT_EQ(history.Points(), (std::vector<LossPoint>{{10, 2}, {30, 1}}));
  EXPECT_EQ(LossesCsv(history.Points()), "samples,loss\n10,2\n30,1\n");
}

TEST(LossHistory, StaysShortHoweverLongTheRun) {
  LossHistory history;
  for (uint64_t i = 1; i <= 1'000'000; ++i) {
    history.Take(i, static_cast<double>(i));
    if (i % 997 != 0) continue;
    const std::vector<LossPoint> points = history.Points();
    ASSERT_LE(points.size(), LossHistory::kPoints);
    ASSERT_GE(points.size(), LossHistory::kPoints / 2);
    ASSERT_EQ(points.back().samples, i);
  }
  for (const LossPoint& point : history.Points()) EXPECT_DOUBLE_EQ(point.loss, 1);
}

// A worker that was lost takes its counts with it.
TEST(LossHistory, GoesOnWhereCountersHaveGoneBack) {
  LossHistory history;
  history.Take(100, 200);
  history.Take(50, 90);
  history.Take(60, 100);
  EXPECT_EQ(history.Points(), (std::vector<LossPoint>{{100, 2}, {60, 1}}));
}

// Where losses of 10^30 are in the sum, what came later is lost in its rounding: it is not 0.
TEST(LossHistory, LossesThatRoundingHidesAreLeftOut) {
  LossHistory history;
  history.Take(10, 20);
  history.Take(20, 1e31);
  history.Take(30, 1e31 + 500);
  EXPECT_EQ(history.Points(), (std::vector<LossPoint>{{10, 2}, {20, 1e30}}));
  EXPECT_FALSE(MeanLoss(1e31, 1e31, 10).has_value());
  EXPECT_FALSE(MeanLoss(4e16, 4e16, 100'000).has_value());  // each was less than half a unit
  EXPECT_EQ(MeanLoss(1e6, 1e6 + 10, 10), 1);
  EXPECT_EQ(MeanLoss(1e6, 1e6, 10), 0);  // converged
}

TEST(LossHistory, LossesThatAreNotFiniteAreLeftOut) {
  LossHistory history;
  history.Take(10, 20);
  history.Take(20, std::nan(""));
  history.Take(30, kInfinity);
  EXPECT_EQ(history.Points(), (std::vector<LossPoint>{{10, 2}}));
}

}  // namespace
}  // namespace soapstone::apps
