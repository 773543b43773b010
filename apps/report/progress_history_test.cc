#include "apps/report/progress_history.h"

#include <gtest/gtest.h>

namespace soapstone::apps {
namespace {

ProgressReport At(Clock clock) { return {.clock = clock, .samples_per_s = 5, .loss = 0.5}; }

TEST(ProgressHistoryTest, OnePointASecond) {
  ProgressHistory history;
  for (int half = 0; half < 20; ++half) history.Take(0.5 * half, At(half));
  ASSERT_EQ(history.points().size(), 10u);
  EXPECT_EQ(history.points()[3], (HistoryPoint{3, 6, 5, 0.5, 0}));
}

// A week, in steps of half a second: from its beginning to its end, evenly, in the bound.
TEST(ProgressHistoryTest, HoweverLongItIsFromTheBeginningToTheEnd) {
  ProgressHistory history;
  const int halves = 2 * 7 * 24 * 3600;
  for (int half = 0; half <= halves; ++half) {
    history.Take(0.5 * half, At(half));
    ASSERT_LE(history.points().size(), ProgressHistory::kPoints);
  }
  const std::vector<HistoryPoint>& points = history.points();
  EXPECT_GE(points.size(), ProgressHistory::kPoints / 2);
  EXPECT_EQ(points.front().at_s, 0);
  const double apart = points[1].at_s - points[0].at_s;
  for (size_t i = 1; i < points.size(); ++i) {
    EXPECT_EQ(points[i].at_s - points[i - 1].at_s, apart);
  }
  EXPECT_GT(points.back().at_s, 0.5 * halves - apart);
}

TEST(ProgressHistoryTest, TimeThatDoesNotGoOnIsNoPoint) {
  ProgressHistory history;
  history.Take(5, At(1));
  history.Take(5, At(2));
  history.Take(3, At(3));
  EXPECT_EQ(history.points().size(), 1u);
}

}  // namespace
}  // namespace soapstone::apps
