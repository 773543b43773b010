#include "models/data/prefetcher.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/data/data_fixture.h"

namespace soapstone::models {
namespace {

class PngBatches : public DataFiles {
 protected:
  static constexpr uint64_t kSamples = 22;
  static constexpr uint64_t kBatch = 8;

  void SetUp() override {
    DataFiles::SetUp();
    for (uint32_t i = 0; i < kSamples; ++i) {
      const std::string noise = NoiseBytes(6 * 6, i + 1);
      WritePng("train/c" + std::to_string(i % 2) + "/" + std::to_string(i) + ".png",
               {.channels = 1, .height = 6, .width = 6}, {noise.begin(), noise.end()});
    }
    TrainTest loaded = *LoadData({.format = "images",
                                  .path = PathOf("train"),
                                  .test_path = PathOf("train"),
                                  .augment = "crop:pad=2+flip"});
    data_ = std::make_shared<const Dataset>(std::move(loaded.train));
    batches_ = std::make_unique<Batches>(data_.get(), 3, kBatch);
  }

  Prefetcher MakePrefetcher(uint64_t samples_max) const {
    return Prefetcher(data_, 3, kBatch, samples_max);
  }
  void ExpectSame(Prefetcher* prefetcher, const BatchPart& part) {
    MiniBatch taken;
    prefetcher->Take(part, &taken);
    MiniBatch direct;
    batches_->Fill(part, &direct);
    EXPECT_EQ(taken.samples, direct.samples);
    EXPECT_EQ(taken.fields, direct.fields) << part.clock << " " << part.begin;
  }

  std::shared_ptr<const Dataset> data_;
  std::unique_ptr<Batches> batches_;
};

// As a worker that has the micro-batches [2, 5) and [5, 8) of each batch.
TEST_F(PngBatches, ExpectedPartsAreThoseThatWouldBeMadeOnTheSpot) {
  Prefetcher prefetcher = MakePrefetcher(kBatch);
  const auto part = [&](Clock clock, uint64_t begin, uint64_t end) {
    const uint64_t n = batches_->BatchSamples(clock);
    return BatchPart{clock, std::min(begin, n), std::min(end, n)};
  };
  for (Clock c = 0; c < 12; ++c) {
    for (const uint64_t begin : {2, 5}) {
      ExpectSame(&prefetcher, part(c, begin, begin + 3));
      prefetcher.Expect(part(c + 1, begin, begin + 3));
    }
  }
  EXPECT_EQ(prefetcher.misses(), 2u);  // of the first clock
  EXPECT_EQ(prefetcher.hits(), 22u);
}

TEST_F(PngBatches, WhatWasNotExpectedIsMadeWhenItIsTaken) {
  Prefetcher prefetcher = MakePrefetcher(kBatch);
  for (Clock c = 0; c < 6; ++c) prefetcher.Expect({c, 0, 1});
  ExpectSame(&prefetcher, {2, 3, 5});  // others of the same clock
  ExpectSame(&prefetcher, {4, 0, 1});  // over expected clocks
  ExpectSame(&prefetcher, {1, 0, 1});  // back
  EXPECT_EQ(prefetcher.hits(), 1u);
  EXPECT_EQ(prefetcher.misses(), 2u);
}

TEST_F(PngBatches, NoMoreThanTheBoundIsExpected) {
  Prefetcher prefetcher = MakePrefetcher(10);
  prefetcher.Expect({0, 0, 6});
  prefetcher.Expect({0, 0, 6});  // the same again takes no room
  prefetcher.Expect({1, 0, 4});
  prefetcher.Expect({2, 0, 1});  // there is no room for it
  ExpectSame(&prefetcher, {0, 0, 6});
  ExpectSame(&prefetcher, {1, 0, 4});
  ExpectSame(&prefetcher, {2, 0, 1});
  EXPECT_EQ(prefetcher.hits(), 2u);
  EXPECT_EQ(prefetcher.misses(), 1u);
}

TEST_F(PngBatches, WhatWasExpectedOfAClockThatHasPassedTakesNoRoom) {
  Prefetcher prefetcher = MakePrefetcher(8);
  ExpectSame(&prefetcher, {0, 0, 1});
  prefetcher.Expect({0, 0, 8});
  ExpectSame(&prefetcher, {0, 0, 8});
  prefetcher.Expect({1, 0, 8});  // never taken
  ExpectSame(&prefetcher, {2, 0, 1});
  ExpectSame(&prefetcher, {3, 0, 1});  // by now it is made, and forgotten
  prefetcher.Expect({4, 0, 8});
  ExpectSame(&prefetcher, {4, 0, 8});
  EXPECT_EQ(prefetcher.hits(), 2u);
}

TEST_F(PngBatches, EndsWithWorkLeft) {
  Prefetcher prefetcher = MakePrefetcher(1000);
  for (Clock c = 0; c < 50; ++c) prefetcher.Expect({c, 0, 6});
}

}  // namespace
}  // namespace soapstone::models
