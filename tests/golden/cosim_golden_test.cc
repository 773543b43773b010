// bsp in virtual time has the bits of a plain loop without a cluster: whatever the number of
// workers and shards, and whatever the delays.
#include <string>
#include <utility>

#include "experiment/cosim/cosim.h"
#include "gtest/gtest.h"
#include "tests/golden/direct_cluster.h"

namespace soapstone::golden {
namespace {

constexpr char kStalls[] = "jitter:sigma=0.2+stall:p=0.05,factor=6";

experiment::CosimResult Train(const TrainingSetup& setup, const experiment::CosimTiming& timing) {
  auto result = experiment::Cosimulate(JobOf(setup), timing, {});
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->timing.violations, 0u) << result->timing.violation.value_or("");
  return *std::move(result);
}

TEST(CosimGoldenTest, BspHasTheBitsOfSequentialSgd) {
  const TrainingSetup setup = {.micro_batches = 8};
  const std::string expected = TrainSequentially(setup).sha256;
  for (const uint32_t workers : {1u, 2u, 5u, 8u}) {
    for (const uint32_t shards : {1u, 3u}) {
      TrainingSetup cluster = setup;
      cluster.workers = workers;
      cluster.shards = shards;
      EXPECT_EQ(Train(cluster, {}).sha256, expected) << workers << " workers, " << shards;
    }
  }
}

TEST(CosimGoldenTest, BspKeepsItsBitsWithStragglersAndASlowNetwork) {
  const TrainingSetup setup = {.workers = 8, .shards = 2, .micro_batches = 8};
  const std::string expected = TrainSequentially(setup).sha256;
  for (const uint64_t seed : {1u, 2u, 3u}) {
    EXPECT_EQ(Train(setup, {.stragglers = kStalls, .seed = seed}).sha256, expected);
  }
  EXPECT_EQ(Train(setup, {.stragglers = kStalls, .latency_us = 300, .bandwidth_mbps = 500}).sha256,
            expected);
}

// Others take over what was the failed worker's, its successor begins where they are.
TEST(CosimGoldenTest, BspKeepsItsBitsWhileWorkersFailAndAreReplaced) {
  const TrainingSetup setup = {.workers = 8, .shards = 2, .micro_batches = 8};
  const std::string expected = TrainSequentially(setup).sha256;
  uint64_t failures = 0;
  for (const uint64_t seed : {1u, 2u, 3u}) {
    const experiment::CosimResult result =
        Train(setup, {.stragglers = "jitter:sigma=0.2+failstop:p=0.03,down_ms=6",
                      .seed = seed,
                      .latency_us = 50,
                      .timeout_ns = 3 * kMillisecond});
    EXPECT_EQ(result.sha256, expected);
    failures += result.timing.failures;
  }
  EXPECT_GE(failures, 3u);
}

// The store is the very cluster's: with one worker all policies that push gradients are sequential
// SGD, in virtual time as in the direct cluster; so is elastic averaging one run.
TEST(CosimGoldenTest, OneWorkerOfAnyPolicyHasTheDirectClustersBits) {
  for (const char* policy :
       {"ssp:s=3", "async", "easgd:tau=4,mode=sync", "easgd:tau=4,mode=async"}) {
    const TrainingSetup setup = {.policy = policy, .shards = 2, .micro_batches = 1};
    EXPECT_EQ(Train(setup, {.stragglers = kStalls}).sha256, TrainByCluster(setup).sha256) << policy;
  }
}

// Exchanges in rounds: order of arrival changes nothing.
TEST(CosimGoldenTest, SynchronousElasticAveragingHasTheDirectClustersBits) {
  const TrainingSetup setup = {
      .policy = "easgd:tau=4,mode=sync", .workers = 4, .shards = 2, .micro_batches = 4};
  EXPECT_EQ(Train(setup, {.stragglers = kStalls}).sha256, TrainByCluster(setup).sha256);
}

}  // namespace
}  // namespace soapstone::golden
