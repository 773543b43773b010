#include "models/data/batches.h"

#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::models {
namespace {

constexpr size_t kElements = 2 * 4 * 4;

// 23 images with values that tell them apart.
Dataset Images() {
  std::vector<float> values(23 * kElements);
  std::iota(values.begin(), values.end(), 1.0f);
  std::vector<int32_t> labels(23);
  std::iota(labels.begin(), labels.end(), 0);
  return {.shape = {.channels = 2, .height = 4, .width = 4},
          .classes = 23,
          .augmentation = {.pad = 2, .flip = 0.5},
          .columns = {FloatColumn({.name = "image", .shape = {2, 4, 4}}, std::move(values)),
                      IntColumn({.name = "label", .is_float = false}, 23, std::move(labels))}};
}

MiniBatch Filled(Batches* batches, const BatchPart& part) {
  MiniBatch feed;
  batches->Fill(part, &feed);
  return feed;
}

TEST(Batches, WithoutAugmentationTheyAreTheSamplersSamples) {
  Dataset data = Images();
  data.augmentation = {};
  Batches batches(&data, 5, 6);
  Sampler sampler(5, 23, 6);
  for (Clock c = 0; c < 9; ++c) {
    ASSERT_EQ(batches.BatchSamples(c), sampler.BatchSamples(c));
    MiniBatch wanted;
    data.Gather(sampler.Samples(c, 1, sampler.BatchSamples(c)), &wanted);
    EXPECT_EQ(Filled(&batches, {c, 1, sampler.BatchSamples(c)}).fields, wanted.fields);
  }
}

// Exact resume: another process that begins at clock 7 has the bits of one that ran up to it.
TEST(Batches, ARunThatGoesOnFromAClockHasTheSameBits) {
  const Dataset data = Images();
  Batches whole(&data, 5, 6);
  std::vector<MiniBatch> feeds;
  for (Clock c = 0; c < 15; ++c) feeds.push_back(Filled(&whole, {c, 0, whole.BatchSamples(c)}));
  Batches resumed(&data, 5, 6);
  for (Clock c = 7; c < 15; ++c) {
    EXPECT_EQ(Filled(&resumed, {c, 0, resumed.BatchSamples(c)}).fields, feeds[c].fields) << c;
  }
}

TEST(Batches, SharingABatchOutOtherwiseChangesNoBits) {
  const Dataset data = Images();
  Batches whole(&data, 5, 6);
  const MiniBatch all = Filled(&whole, {4, 0, 6});
  std::vector<std::byte> images;
  for (const auto& [begin, end] : {std::pair{0, 1}, {1, 5}, {5, 5}, {5, 6}}) {
    Batches one(&data, 5, 6);
    const MiniBatch part =
        Filled(&one, {4, static_cast<uint64_t>(begin), static_cast<uint64_t>(end)});
    EXPECT_EQ(part.samples, end - begin);
    images.insert(images.end(), part.fields[0].begin(), part.fields[0].end());
  }
  EXPECT_EQ(images, all.fields[0]);
}

TEST(Batches, EachEpochAugmentsAnew) {
  const Dataset data = Images();
  Batches batches(&data, 5, 23);
  std::vector<std::vector<float>> by_label[2];
  for (Clock epoch : {0, 1}) {
    const MiniBatch feed = Filled(&batches, {epoch, 0, 23});
    by_label[epoch].resize(23);
    for (size_t i = 0; i < 23; ++i) {
      const auto image = feed.Floats(0).subspan(i * kElements, kElements);
      by_label[epoch][static_cast<size_t>(feed.Ints(1)[i])] = {image.begin(), image.end()};
    }
  }
  size_t same = 0;
  for (size_t label = 0; label < 23; ++label) {
    same += by_label[0][label] == by_label[1][label] ? 1 : 0;
  }
  EXPECT_LE(same, 3u);  // one of 50 crops and flips each
}

}  // namespace
}  // namespace soapstone::models
