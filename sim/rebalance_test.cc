// Re-balancing with the shipped scheduler, workers and shards: every micro-batch has one owner at
// every clock whatever happens, and a slow worker costs little.
#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/fault_world.h"
#include "sim/virtual_cluster.h"

namespace soapstone::sim {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kOneSlowWorker[] = "slow:workers=1,factor=2";
constexpr double kIdeal = 31.5 / 32;  // sum of speeds / P

// ---- Exactly once

SeedOptions RebalanceOptions(const std::string& policy, FaultBudget faults) {
  SeedOptions options;
  options.world.shape = {.workers = 3,
                         .shards = 2,
                         .policy = *consistency::ParsePolicy(policy),
                         .clocks = 12,
                         .micro_batch_count = 11,
                         .rebalance = {.micro_batch_count = 11,
                                       .clocks_min = 1,
                                       .memory_clocks = 1,
                                       .noise_weight = 0,
                                       .jump_min = 1e9,
                                       .lead = 2}};
  options.world.faults = faults;
  options.world.start_registered = true;
  options.fault_probability = 0.2;
  return options;
}

class RebalanceWorldTest : public testing::TestWithParam<const char*> {
 protected:
  // Seeds of the fuzzer.
  void RunSeeds(FaultBudget faults) {
    const char* wanted = std::getenv("SOAPSTONE_SEEDS");
    const uint64_t seeds = wanted == nullptr ? 100 : std::strtoull(wanted, nullptr, 10);
    uint64_t changes = 0;
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      const auto report = RunSeed(RebalanceOptions(GetParam(), faults), seed);
      ASSERT_TRUE(report.ok()) << report.status();
      ASSERT_FALSE(report->violation.has_value()) << report->ToString();
      changes += report->share_changes;
    }
    EXPECT_GT(changes, seeds);  // it is not for want of changes that nothing went wrong
  }
};

TEST_P(RebalanceWorldTest, RandomSpeeds) { RunSeeds({.duplicates = 3, .reports = 60}); }
TEST_P(RebalanceWorldTest, RandomSpeedsWhileWorkersComeAndGo) {
  RunSeeds({.crashes = 2, .leaves = 1, .joins = 3, .duplicates = 3, .reports = 60});
}

INSTANTIATE_TEST_SUITE_P(Policies, RebalanceWorldTest,
                         testing::Values("bsp", "ssp:s=0", "ssp:s=2", "async"));

TEST(RebalanceWorldMutantTest, SharesThatDoNotHoldForAllAtOnceAreFound) {
  for (const char* policy : {"bsp", "ssp:s=2", "async"}) {
    SeedOptions options = RebalanceOptions(policy, {.reports = 60});
    options.world.mutant = WorldMutant::kSharesTooEarly;
    int found = 0;
    for (uint64_t seed = 1; seed <= 50; ++seed) {
      found += RunSeed(options, seed)->violation.has_value() ? 1 : 0;
    }
    EXPECT_GT(found, 0) << policy;
  }
}

// ---- Rates

VirtualResult SimulateRebalanced(const VirtualOptions& options) {
  auto result = RunVirtual(options);
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->violations, 0u) << *result->violation;
  return *std::move(result);
}

TEST(RebalanceRateTest, OneSlowWorkerOf32CostsLittle) {
  for (const char* policy : {"bsp", "ssp:s=0", "ssp:s=4"}) {
    const VirtualResult even =
        SimulateRebalanced({.policy = policy, .stragglers = kOneSlowWorker, .duration = 1000});
    const VirtualResult balanced = SimulateRebalanced(
        {.rebalance = true, .policy = policy, .stragglers = kOneSlowWorker, .duration = 1000});
    EXPECT_LT(even.rate, 0.51) << policy;
    EXPECT_GE(balanced.rate, 0.93 * kIdeal) << policy;
    EXPECT_THAT(balanced.news, SizeIs(1)) << policy;
  }
}

TEST(RebalanceRateTest, WithJitterToo) {
  const std::string stragglers = std::string("jitter:sigma=0.2+") + kOneSlowWorker;
  const VirtualResult fast =
      SimulateRebalanced({.policy = "ssp:s=4", .stragglers = "jitter:sigma=0.2", .duration = 2000});
  const VirtualResult balanced = SimulateRebalanced(
      {.rebalance = true, .policy = "ssp:s=4", .stragglers = stragglers, .duration = 2000});
  EXPECT_GE(balanced.rate, 0.93 * kIdeal * fast.rate);
}

TEST(RebalanceRateTest, NoiseIsLeftAlone) {
  const VirtualOptions even = {.micro_batch_count = 512,
                               .policy = "ssp:s=4",
                               .stragglers = "jitter:sigma=0.2",
                               .duration = 2000};
  VirtualOptions balanced = even;
  balanced.rebalance = true;
  const VirtualResult result = SimulateRebalanced(balanced);
  EXPECT_THAT(result.news, IsEmpty());
  EXPECT_GE(result.rate, 0.98 * SimulateRebalanced(even).rate);
}

TEST(RebalanceRateTest, AChangeOfSpeedIsFollowed) {
  // Another worker is slow every 500 clocks.
  const VirtualResult result =
      SimulateRebalanced({.rebalance = true,
                          .policy = "ssp:s=4",
                          .stragglers = "rotating:workers=32,every=500,factor=2",
                          .clocks = 1500});
  EXPECT_GE(result.news.size(), 3u);
  EXPECT_GE(result.rate, 0.75);
}

// A member that owns no part of a batch owes no update: the checkers would count each as missing.
TEST(MicroBatchesTest, FewerMicroBatchesThanWorkersAreRefused) {
  const VirtualOptions options = {
      .workers = 8, .micro_batch_count = 7, .policy = "ssp:s=1", .clocks = 10};
  EXPECT_THAT(std::string(RunVirtual(options).status().message()),
              testing::HasSubstr("micro_batches: 7 is less than the 8 workers"));
  VirtualOptions enough = options;
  enough.micro_batch_count = 8;
  EXPECT_TRUE(RunVirtual(enough).ok());
}

TEST(RebalanceRateTest, WhatDoesNotGoWithItIsRefused) {
  const auto error = [](const VirtualOptions& options) {
    return std::string(RunVirtual(options).status().message());
  };
  EXPECT_THAT(error({.micro_batch_count = 32, .rebalance = true, .clocks = 1}),
              testing::HasSubstr("more micro-batches than workers"));
  EXPECT_THAT(error({.rebalance = true, .policy = "easgd:tau=4", .clocks = 1}),
              testing::HasSubstr("every gradient"));
}

}  // namespace
}  // namespace soapstone::sim
