#include "wire/text_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/job.pb.h"

namespace soapstone::wire {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(TextConfig, UnknownFieldIsAnErrorWithItsPlace) {
  JobConfig config;
  const absl::Status status = ParseTextConfig("model: \"mlp\"\n  modle: 3\n", "a.txt", &config);
  EXPECT_THAT(std::string(status.message()), StartsWith("a.txt:2:"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("modle"));
}

TEST(TextConfig, PlacesOfFieldsAndOfTheNearestAncestor) {
  JobConfig config;
  TextPlaces places;
  const std::string text = "model: \"mlp\"\ntraining {\n  epochs: 3\n  batch: 8\n}\n";
  ASSERT_TRUE(ParseTextConfig(text, "a.txt", &config, &places).ok());
  EXPECT_EQ(places.Of({{"training"}, {"batch"}}), "a.txt:4:3");
  EXPECT_EQ(places.Of({{"training"}, {"seed"}}), "a.txt:2:1");  // not set: its message's place
  EXPECT_EQ(places.Of({{"policy"}}), "a.txt");
  EXPECT_TRUE(places.Has({{"training"}, {"epochs"}}));
  EXPECT_FALSE(places.Has({{"training"}, {"seed"}}));
  EXPECT_FALSE(places.Has({{"no_such_field"}}));
}

TEST(TextConfig, TextOfIsReadBack) {
  JobConfig config, again;
  config.set_model("mlp");
  config.mutable_training()->set_batch(8);
  ASSERT_TRUE(ParseTextConfig(TextOf(config), "a.txt", &again).ok());
  EXPECT_EQ(TextOf(again), TextOf(config));
}

}  // namespace
}  // namespace soapstone::wire
