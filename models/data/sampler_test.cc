#include "models/data/sampler.h"

#include <algorithm>
#include <set>
#include <utility>

#include "gtest/gtest.h"

namespace soapstone::models {
namespace {

std::vector<uint64_t> Batch(Sampler* sampler, Clock clock) {
  const auto span = sampler->Samples(clock, 0, sampler->BatchSamples(clock));
  return {span.begin(), span.end()};
}

TEST(Sampler, AnEpochHoldsEachSampleOnce) {
  Sampler sampler(1, 103, 10);
  for (Clock first : {0, 11}) {
    std::multiset<uint64_t> seen;
    for (Clock c = first; c < first + 11; ++c) {
      for (uint64_t i : Batch(&sampler, c)) seen.insert(i);
    }
    EXPECT_EQ(seen.size(), 103u);
    EXPECT_EQ(std::set<uint64_t>(seen.begin(), seen.end()).size(), 103u);
  }
}

TEST(Sampler, LastBatchOfAnEpochIsWhatIsLeft) {
  const Sampler sampler(1, 103, 10);
  EXPECT_EQ(sampler.steps_per_epoch(), 11u);
  EXPECT_EQ(sampler.BatchSamples(9), 10u);
  EXPECT_EQ(sampler.BatchSamples(10), 3u);
  EXPECT_EQ(sampler.BatchSamples(11), 10u);
  EXPECT_EQ(sampler.BatchSamples(21), 3u);
}

TEST(Sampler, PartsOfABatchAddUpToIt) {
  Sampler sampler(1, 103, 10);
  const std::vector<uint64_t> whole = Batch(&sampler, 4);
  std::vector<uint64_t> parts;
  for (auto [begin, end] : {std::pair{0, 3}, {3, 4}, {4, 10}}) {
    for (uint64_t i : sampler.Samples(4, begin, end)) parts.push_back(i);
  }
  EXPECT_EQ(parts, whole);
}

TEST(Sampler, DoesNotDependOnTheOrderOfCalls) {
  Sampler forward(1, 50, 8);
  Sampler backward(1, 50, 8);
  std::vector<std::vector<uint64_t>> batches;
  for (Clock c = 0; c < 20; ++c) batches.push_back(Batch(&forward, c));
  for (Clock c = 20; c-- > 0;) EXPECT_EQ(Batch(&backward, c), batches[c]);
}

TEST(Sampler, EpochsAndSeedsDiffer) {
  Sampler a(1, 64, 64);
  Sampler b(2, 64, 64);
  EXPECT_NE(Batch(&a, 0), Batch(&a, 1));
  EXPECT_NE(Batch(&a, 0), Batch(&b, 0));
}

TEST(Sampler, EverySampleComesFirstAboutEquallyOften) {
  Sampler sampler(3, 5, 5);
  std::vector<int> counts(5);
  for (Clock c = 0; c < 5000; ++c) ++counts[sampler.Samples(c, 0, 1)[0]];
  for (int count : counts) EXPECT_NEAR(count, 1000, 150);
}

TEST(Sampler, BatchLargerThanTheDataIsTheData) {
  const Sampler sampler(1, 7, 100);
  EXPECT_EQ(sampler.steps_per_epoch(), 1u);
  EXPECT_EQ(sampler.BatchSamples(3), 7u);
}

TEST(SamplerDeathTest, PositionsPastTheBatchDie) {
  Sampler sampler(1, 103, 10);
  EXPECT_DEATH(sampler.Samples(10, 0, 4), "BatchSamples");
}

}  // namespace
}  // namespace soapstone::models
