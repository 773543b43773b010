#include "apps/report/slow_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace soapstone::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A job whose workers step at set paces, looked at twice a second.
class SlowWorkersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (uint32_t w = 0; w < 3; ++w) Join(w);
  }
  void Join(uint32_t worker) { roster_.workers.push_back({.worker = WorkerId{worker}}); }

  // Runs for so long; `ms`: each worker's own time a step, of which it computes 9/10. All wait for
  // the slowest, as under bsp.
  std::vector<std::string> Run(Nanos duration, const std::vector<double>& ms) {
    std::vector<std::string> lines;
    double slowest = 0;
    for (const double step : ms) slowest = std::max(slowest, step);
    for (const Nanos end = now_ + duration; now_ < end;) {
      now_ += kSecond / 2;
      steps_ += 500 / slowest;
      const auto steps = static_cast<Clock>(steps_);
      steps_ -= static_cast<double>(steps);
      for (uint32_t w = 0; w < ms.size(); ++w) {
        wire::Progress& p = progress_[WorkerId{w}];
        const auto own = static_cast<Nanos>(ms[w] * kMillisecond);
        p.clock += steps;
        p.compute_ns += steps * own * 9 / 10;
        p.blocked_ns += steps * (own / 10 + static_cast<Nanos>((slowest - ms[w]) * kMillisecond));
        p.parked_ns += steps * static_cast<Nanos>((slowest - ms[w]) * kMillisecond);
      }
      for (std::string& line : slow_.Take(now_, began_, progress_, roster_)) lines.push_back(line);
    }
    return lines;
  }

  const Nanos began_ = 1000 * kSecond;
  Nanos now_ = began_;
  wire::Roster roster_;
  double steps_ = 0;  // begun
  ProgressByWorker progress_;
  SlowWorkers slow_;
};

TEST_F(SlowWorkersTest, OneOfThemIsNamedOnceAndItsEndToo) {
  EXPECT_THAT(Run(20 * kSecond, {20, 21, 20}), IsEmpty());
  const auto lines = Run(10 * kSecond, {20, 41, 20});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], ::testing::MatchesRegex("worker 1 is slow: .* ms a step, median 20 ms, "
                                                "since 0:(1[5-9]|2[0-4]); compute 90%"));
  EXPECT_THAT(Run(30 * kSecond, {20, 41, 20}), IsEmpty());
  EXPECT_NEAR(slow_.paces().at(WorkerId{1}).slowdown, 2.05, 0.01);
  EXPECT_THAT(Run(15 * kSecond, {20, 21, 20}),
              ElementsAre("worker 1 is slow no more: 21 ms a step, median 20 ms"));
}

// Five of them take longer than the window.
TEST_F(SlowWorkersTest, OneIsNamedWhereStepsTakeSeconds) {
  EXPECT_THAT(Run(60 * kSecond, {2000, 2100, 2000}), IsEmpty());
  const auto lines = Run(60 * kSecond, {2000, 4000, 2000});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].substr(0, 17), "worker 1 is slow:");
  EXPECT_NEAR(slow_.paces().at(WorkerId{1}).slowdown, 2.0, 0.01);
  EXPECT_EQ(Run(60 * kSecond, {2000, 2100, 2000}).size(), 1u);
}

TEST_F(SlowWorkersTest, OfTwoOneCanBeSlow) {
  roster_.workers.pop_back();
  const auto lines = Run(10 * kSecond, {10, 25});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].substr(0, 17), "worker 1 is slow:");
}

TEST_F(SlowWorkersTest, UnevenButNotSlowIsNoNews) {
  EXPECT_THAT(Run(60 * kSecond, {20, 29, 24}), IsEmpty());
}

TEST_F(SlowWorkersTest, AMomentIsNoNews) {
  EXPECT_THAT(Run(20 * kSecond, {20, 20, 20}), IsEmpty());
  EXPECT_THAT(Run(kSecond, {20, 60, 20}), IsEmpty());
  EXPECT_THAT(Run(20 * kSecond, {20, 20, 20}), IsEmpty());
}

TEST_F(SlowWorkersTest, TooFewClocksAndLostOnesHaveNoPace) {
  EXPECT_THAT(Run(16 * kSecond, {2000, 4000, 2000}), IsEmpty());
  EXPECT_THAT(slow_.paces(), IsEmpty());
  roster_ = {};
  Join(0);
  EXPECT_THAT(Run(30 * kSecond, {20, 60, 20}), IsEmpty());
}

}  // namespace
}  // namespace soapstone::apps
