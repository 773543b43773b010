#include "compute/microbatch.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/random.h"
#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

// By trying all sums.
double BruteForce(int64_t batch, const std::vector<MicrobatchOption>& options, size_t limit) {
  if (batch == 0) return 0;
  double best = kNone;
  for (const MicrobatchOption& o : options) {
    if (o.batch > batch || o.workspace_bytes > limit) continue;
    best = std::min(best, o.seconds + BruteForce(batch - o.batch, options, limit));
  }
  return best;
}

std::vector<MicrobatchOption> RandomOptions(uint64_t trial, int64_t batch, size_t count) {
  const CounterRandom random(7, RandomUse::kTest, trial);
  std::vector<MicrobatchOption> options;
  for (size_t i = 0; i < count; ++i) {
    options.push_back({.batch = 1 + static_cast<int64_t>(random.Below(3 * i, batch)),
                       .seconds = 1.0 + static_cast<double>(random.Below(3 * i + 1, 64)),
                       .workspace_bytes = 16 * random.Below(3 * i + 2, 8),
                       .algorithm = static_cast<int>(i)});
  }
  return options;
}

TEST(MicrobatchTest, SizesAreTheBatchAndPowersOfTwo) {
  EXPECT_EQ(MicrobatchSizes(1), (std::vector<int64_t>{1}));
  EXPECT_EQ(MicrobatchSizes(8), (std::vector<int64_t>{1, 2, 4, 8}));
  EXPECT_EQ(MicrobatchSizes(6), (std::vector<int64_t>{1, 2, 4, 6}));
}

TEST(MicrobatchTest, FastestIsThatOfAllSums) {
  int found = 0, none = 0;
  for (uint64_t trial = 0; trial < 200; ++trial) {
    const int64_t batch = 1 + static_cast<int64_t>(trial % 9);
    const auto options = RandomOptions(trial, batch, 5);
    for (size_t limit : {0u, 40u, 1000u}) {
      const double best = BruteForce(batch, options, limit);
      const auto plan = FastestMicrobatches(batch, options, limit);
      ASSERT_EQ(plan.ok(), best != kNone);
      if (!plan.ok()) {
        ++none;
        continue;
      }
      ++found;
      EXPECT_DOUBLE_EQ(plan->seconds, best);
      int64_t sum = 0;
      for (const MicrobatchOption& part : plan->parts) {
        sum += part.batch;
        EXPECT_LE(part.workspace_bytes, plan->workspace_bytes);
      }
      EXPECT_EQ(sum, batch);
      EXPECT_LE(plan->workspace_bytes, limit);
    }
  }
  EXPECT_GT(found, 100);
  EXPECT_GT(none, 20);
}

TEST(MicrobatchTest, AFastAlgorithmThatNeedsMuchIsUsedInParts) {
  const std::vector<MicrobatchOption> options = {
      {.batch = 8, .seconds = 10, .workspace_bytes = 0, .algorithm = 0},
      {.batch = 8, .seconds = 2, .workspace_bytes = 800, .algorithm = 1},
      {.batch = 4, .seconds = 1.5, .workspace_bytes = 400, .algorithm = 1}};
  EXPECT_EQ(FastestMicrobatches(8, options, 0)->seconds, 10);
  EXPECT_EQ(FastestMicrobatches(8, options, 500)->seconds, 3);
  EXPECT_EQ(FastestMicrobatches(8, options, 500)->parts.size(), 2u);
  EXPECT_EQ(FastestMicrobatches(8, options, 800)->seconds, 2);
  const auto pareto = ParetoMicrobatches(8, options);
  ASSERT_EQ(pareto.size(), 3u);
  EXPECT_EQ(pareto[1].workspace_bytes, 400u);
}

TEST(MicrobatchTest, TheErrorSaysWhatToDo) {
  const auto plan = FastestMicrobatches(3, {}, 64);
  EXPECT_NE(plan.status().message().find("raise the workspace's limit"), std::string::npos);
}

TEST(MicrobatchTest, NothingOutsideTheParetoSetIsBetter) {
  for (uint64_t trial = 0; trial < 50; ++trial) {
    const auto options = RandomOptions(trial, 7, 6);
    const auto pareto = ParetoMicrobatches(7, options);
    for (size_t limit = 0; limit < 128; limit += 16) {
      double best = kNone;
      for (const MicrobatchPlan& p : pareto) {
        if (p.workspace_bytes <= limit) best = std::min(best, p.seconds);
      }
      EXPECT_EQ(best, BruteForce(7, options, limit));
    }
  }
}

TEST(MicrobatchTest, SharedWorkspaceIsThatOfAllChoices) {
  int found = 0;
  for (uint64_t trial = 0; trial < 60; ++trial) {
    std::vector<std::vector<MicrobatchPlan>> plans;
    for (uint64_t k = 0; k < 4; ++k) {
      plans.push_back(ParetoMicrobatches(6, RandomOptions(trial * 4 + k, 6, 6)));
    }
    const size_t total = 64 + 16 * (trial % 10);
    double best = kNone;
    std::function<void(size_t, size_t, double)> all = [&](size_t k, size_t bytes, double seconds) {
      if (bytes > total) return;
      if (k == plans.size()) {
        best = std::min(best, seconds);
        return;
      }
      for (const MicrobatchPlan& p : plans[k])
        all(k + 1, bytes + p.workspace_bytes, seconds + p.seconds);
    };
    all(0, 0, 0);
    const auto chosen = ShareWorkspace(plans, total);
    ASSERT_EQ(chosen.ok(), best != kNone);
    if (!chosen.ok()) continue;
    ++found;
    double seconds = 0;
    size_t bytes = 0;
    for (size_t k = 0; k < plans.size(); ++k) {
      seconds += plans[k][(*chosen)[k]].seconds;
      bytes += plans[k][(*chosen)[k]].workspace_bytes;
    }
    EXPECT_DOUBLE_EQ(seconds, best);
    EXPECT_LE(bytes, total);
  }
  EXPECT_GT(found, 20);
}

}  // namespace
}  // namespace soapstone::compute
