#include "models/data/augmentation.h"

#include <map>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/data/data_fixture.h"

namespace soapstone::models {
namespace {

using ::testing::HasSubstr;

constexpr ImageShape kShape = {.channels = 2, .height = 3, .width = 3};

// 1 to 18: no zeros but those of the frame.
std::vector<float> Image() {
  std::vector<float> image(18);
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i + 1);
  return image;
}

std::vector<float> Augmented(const Augmentation& augmentation, const SampleKey& key) {
  std::vector<float> out(18, -1);
  Augment(augmentation, key, kShape, Image(), absl::MakeSpan(out));
  return out;
}

// The image moved by (dy, dx) in a frame of zeros, and then flipped: the definition.
std::vector<float> Moved(int64_t dy, int64_t dx, bool flip) {
  const std::vector<float> image = Image();
  std::vector<float> out;
  for (int64_t c = 0; c < 2; ++c) {
    for (int64_t y = 0; y < 3; ++y) {
      for (int64_t column = 0; column < 3; ++column) {
        const int64_t x = flip ? 2 - column : column;
        const bool inside = y + dy >= 0 && y + dy < 3 && x + dx >= 0 && x + dx < 3;
        out.push_back(inside ? image[static_cast<size_t>(c * 9 + (y + dy) * 3 + x + dx)] : 0);
      }
    }
  }
  return out;
}

TEST(Augment, IsOneOfTheCropsEachAboutEquallyOften) {
  std::map<std::vector<float>, int> counts;
  for (int64_t dy = -1; dy <= 1; ++dy) {
    for (int64_t dx = -1; dx <= 1; ++dx) {
      for (const bool flip : {false, true}) counts[Moved(dy, dx, flip)] = 0;
    }
  }
  ASSERT_EQ(counts.size(), 18u);
  for (uint64_t sample = 0; sample < 3600; ++sample) {
    const auto it = counts.find(Augmented({.pad = 1, .flip = 0.5}, {.seed = 7, .sample = sample}));
    ASSERT_NE(it, counts.end()) << sample;
    ++it->second;
  }
  for (const auto& [image, count] : counts) EXPECT_NEAR(count, 200, 60);
}

TEST(Augment, FlipOnlyMirrors) {
  EXPECT_EQ(Augmented({.flip = 1}, {.sample = 3}), Moved(0, 0, true));
  EXPECT_EQ(Augmented({.flip = 0}, {.sample = 3}), Image());
}

TEST(Augment, IsAFunctionOfSeedEpochAndSample) {
  const Augmentation augmentation = {.pad = 1, .flip = 0.5};
  const auto all = [&](uint64_t seed, uint64_t epoch) {
    std::vector<std::vector<float>> images;
    for (uint64_t sample = 0; sample < 20; ++sample) {
      images.push_back(Augmented(augmentation, {seed, epoch, sample}));
    }
    return images;
  };
  EXPECT_EQ(all(1, 2), all(1, 2));
  EXPECT_NE(all(1, 2), all(1, 3));
  EXPECT_NE(all(1, 2), all(2, 2));
  const auto images = all(1, 2);
  EXPECT_GT(std::set<std::vector<float>>(images.begin(), images.end()).size(), 5u);
}

TEST(ParseAugmentation, TakesCropAndFlip) {
  EXPECT_EQ(*ParseAugmentation("crop:pad=3+flip"), (Augmentation{.pad = 3, .flip = 0.5}));
  EXPECT_EQ(*ParseAugmentation("flip:p=0.25"), (Augmentation{.flip = 0.25}));
  EXPECT_EQ(*ParseAugmentation("crop"), (Augmentation{.pad = 4}));
  EXPECT_FALSE(ParseAugmentation("")->any());
  EXPECT_FALSE(ParseAugmentation("none")->any());
}

TEST(ParseAugmentation, SaysWhatThereIs) {
  const auto error = [](const char* text) {
    return std::string(ParseAugmentation(text).status().message());
  };
  EXPECT_THAT(error("rotate"), HasSubstr("unknown augmentation 'rotate'; there are crop:pad=4"));
  EXPECT_THAT(error("crop:pad=0"), HasSubstr("pad=0 is outside"));
  EXPECT_THAT(error("flip:p=2"), HasSubstr("p=2 is outside"));
  EXPECT_THAT(error("flip:q=1"), HasSubstr("unknown argument 'q'"));
}

class AugmentedData : public DataFiles {
 protected:
  DataOptions Images(const std::string& augment) {
    return {.format = "csv",
            .path = Write("a.csv", "1,2,3,4,0\n5,6,7,8,1\n"),
            .height = 2,
            .width = 2,
            .augment = augment};
  }
};

TEST_F(AugmentedData, OnlyTheTrainingPartIsAugmented) {
  const TrainTest data = *LoadData(Images("crop:pad=1+flip"));
  EXPECT_EQ(data.train.augmentation, (Augmentation{.pad = 1, .flip = 0.5}));
  EXPECT_FALSE(data.test.augmentation.any());
}

TEST_F(AugmentedData, OtherDataAreRefused) {
  EXPECT_THAT(LoadErrorOf(Images("crop:pad=2")),
              HasSubstr("a crop with pad=2 may miss all of an image of 2×2"));
  DataOptions flat = Images("flip");
  flat.height = flat.width = 0;
  EXPECT_THAT(LoadErrorOf(flat), HasSubstr("augment: 'flip' is for images"));
  EXPECT_THAT(
      LoadErrorOf(
          {.format = "copy", .length = 2, .vocabulary = 9, .samples = 9, .augment = "flip"}),
      HasSubstr("these data of format copy have none"));
}

}  // namespace
}  // namespace soapstone::models
