#include "compute/microbatch.h"

#include <algorithm>
#include <limits>
#include <string>

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

std::vector<std::vector<MicrobatchPlan>> RandomPasses(uint64_t trial, size_t count) {
  std::vector<std::vector<MicrobatchPlan>> passes;
  for (uint64_t k = 0; k < count; ++k) {
    passes.push_back(ParetoMicrobatches(6, RandomOptions(trial * count + k, 6, 6)));
  }
  return passes;
}

// The least Σ seconds with Σ bytes <= total, by trying all choices.
double BestShare(const std::vector<std::vector<WorkspaceCost>>& costs, size_t total, size_t from) {
  if (from == costs.size()) return 0;
  double best = kNone;
  for (const WorkspaceCost& c : costs[from]) {
    if (c.bytes > total) continue;
    best = std::min(best, c.seconds + BestShare(costs, total - c.bytes, from + 1));
  }
  return best;
}

double SecondsWithin(const std::vector<WorkspaceCost>& costs, size_t bytes) {
  double best = kNone;
  for (const WorkspaceCost& c : costs) {
    if (c.bytes <= bytes) best = std::min(best, c.seconds);
  }
  return best;
}

TEST(MicrobatchTest, AReusedWorkspaceIsAllOfEachPass) {
  int found = 0;
  for (uint64_t trial = 0; trial < 60; ++trial) {
    const auto passes = RandomPasses(trial, 3);
    const auto costs = ReuseWorkspace(passes, 1);
    for (size_t limit = 0; limit < 128; limit += 16) {
      double sum = 0;
      for (uint64_t k = 0; k < 3; ++k) {
        sum += BruteForce(6, RandomOptions(trial * 3 + k, 6, 6), limit);
      }
      EXPECT_EQ(SecondsWithin(costs, limit), sum);
      if (sum != kNone) ++found;
    }
  }
  EXPECT_GT(found, 50);
}

TEST(MicrobatchTest, RoundedWorkspacesAreMultiplesThatSuffice) {
  const auto passes = RandomPasses(1, 2);
  const auto exact = ReuseWorkspace(passes, 1), rounded = ReuseWorkspace(passes, 48);
  ASSERT_FALSE(exact.empty());
  EXPECT_EQ(rounded.back().seconds, exact.back().seconds);
  for (const WorkspaceCost& c : rounded) {
    EXPECT_EQ(c.bytes % 48, 0u);
    EXPECT_GE(c.seconds, SecondsWithin(exact, c.bytes));
  }
  const std::vector<std::vector<MicrobatchPlan>> impossible(1), none;
  EXPECT_TRUE(ReuseWorkspace(impossible, 1).empty());
  EXPECT_EQ(ReuseWorkspace(none, 1), std::vector<WorkspaceCost>(1));
}

// Under one total, passes in sequence never gain by workspaces of their own: w_k <= Σ w_k.
TEST(MicrobatchTest, ReuseIsNeverSlowerThanWorkspacesApart) {
  int found = 0;
  for (uint64_t trial = 0; trial < 60; ++trial) {
    const auto passes = RandomPasses(trial, 3);
    std::vector<std::vector<WorkspaceCost>> apart;
    for (size_t k = 0; k < passes.size(); ++k) {
      apart.push_back(ReuseWorkspace(absl::MakeConstSpan(passes).subspan(k, 1), 1));
    }
    for (size_t total = 32; total < 256; total += 32) {
      const double best = BestShare(apart, total, 0);
      if (best == kNone) continue;
      ++found;
      EXPECT_LE(SecondsWithin(ReuseWorkspace(passes, 1), total), best);
    }
  }
  EXPECT_GT(found, 50);
}

TEST(MicrobatchTest, SharedWorkspaceIsThatOfAllChoices) {
  int found = 0, better_than_equal = 0;
  for (uint64_t trial = 0; trial < 60; ++trial) {
    std::vector<std::vector<WorkspaceCost>> costs;
    for (uint64_t r = 0; r < 4; ++r) {
      costs.push_back(ReuseWorkspace(RandomPasses(trial * 4 + r, 2), 1));
    }
    const size_t total = 128 + 16 * (trial % 10);
    const double best = BestShare(costs, total, 0);
    const auto chosen = ShareWorkspace(costs, total);
    ASSERT_EQ(chosen.ok(), best != kNone);
    if (!chosen.ok()) continue;
    ++found;
    double seconds = 0, equal = 0;
    size_t bytes = 0;
    for (size_t r = 0; r < costs.size(); ++r) {
      seconds += costs[r][(*chosen)[r]].seconds;
      bytes += costs[r][(*chosen)[r]].bytes;
      equal += SecondsWithin(costs[r], total / costs.size());
    }
    EXPECT_DOUBLE_EQ(seconds, best);
    EXPECT_LE(bytes, total);
    if (seconds < equal) ++better_than_equal;
  }
  EXPECT_GT(found, 20);
  EXPECT_GT(better_than_equal, 10);
}

}  // namespace
}  // namespace soapstone::compute
