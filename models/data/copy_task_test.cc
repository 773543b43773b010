#include "models/data/copy_task.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/data/data_fixture.h"
#include "models/data/text_data.h"

namespace soapstone::models {
namespace {

using ::testing::HasSubstr;

DataOptions Copy() {
  return {.format = "copy",
          .test_fraction = 0.25,
          .length = 5,
          .vocabulary = 9,
          .samples = 40,
          .seed = 1};
}

TEST(CopyTask, TargetsAreTheSourceBackwards) {
  const TrainTest data = *LoadData(Copy());
  EXPECT_EQ(data.train.size(), 30u);
  EXPECT_EQ(data.test.size(), 10u);
  EXPECT_EQ(data.train.classes, 9);
  for (const Dataset* part : {&data.train, &data.test}) {
    const MiniBatch feed = AllOf(*part);
    for (size_t i = 0; i < part->size(); ++i) {
      const auto source = feed.Ints(0).subspan(i * 5, 5);
      const auto target = feed.Ints(1).subspan(i * 6, 6);
      const auto labels = feed.Ints(2).subspan(i * 6, 6);
      EXPECT_EQ(target[0], kSentence);
      EXPECT_EQ(labels[5], kEnd);
      for (size_t t = 0; t < 5; ++t) {
        EXPECT_GE(source[t], kPairSpecials);
        EXPECT_LT(source[t], 9);
        EXPECT_EQ(target[t + 1], source[4 - t]);
        EXPECT_EQ(labels[t], source[4 - t]);
      }
    }
  }
}

TEST(CopyTask, IsAFunctionOfTheSeed) {
  DataOptions other = Copy();
  other.seed = 2;
  EXPECT_EQ(LoadData(Copy())->train.Digest(), LoadData(Copy())->train.Digest());
  EXPECT_NE(LoadData(Copy())->train.Digest(), LoadData(other)->train.Digest());
}

TEST(CopyTask, EveryTokenComesAboutEquallyOften) {
  DataOptions options = Copy();
  options.samples = 2000;
  std::vector<int> counts(9);
  for (const int32_t token : IntsOf(LoadData(options)->train, 0)) ++counts[token];
  for (int token = kPairSpecials; token < 9; ++token) EXPECT_NEAR(counts[token], 1500, 150);
}

TEST(CopyTask, SizesAreChecked) {
  DataOptions options = Copy();
  options.vocabulary = 4;
  EXPECT_THAT(LoadErrorOf(options), HasSubstr("copy: vocabulary 4 is not within 5 and"));
  options = Copy();
  options.length = 0;
  EXPECT_THAT(LoadErrorOf(options), HasSubstr("copy: length 0"));
  options = Copy();
  options.samples = 1;
  EXPECT_THAT(LoadErrorOf(options), HasSubstr("copy: samples 1"));
}

}  // namespace
}  // namespace soapstone::models
