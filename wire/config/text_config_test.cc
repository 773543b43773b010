#include "wire/config/text_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "wire/config/job.pb.h"

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

TEST(TextConfig, TextThatIsNotPlainIsAnErrorOfOneLine) {
  const auto error = [](const std::string& text) {
    JobConfig config;
    return std::string(ParseTextConfig(text, "a.txt", &config).message());
  };
  for (const char* bad : {"\\n", "\\033[2J", "\\x7f", "\\xff", "\\xc3", "\\xc0\\xaf",
                          "\\xed\\xa0\\x80", "\\xf4\\x90\\x80\\x80", "\\xe0\\x80\\x80"}) {
    const std::string text = absl::StrCat("cluster { transport: \"a", bad, "\" }");
    EXPECT_THAT(error(text), StartsWith("a.txt: cluster.transport: control characters")) << bad;
  }
  for (const char* good : {"", "größer", "数", "\\xf0\\x9f\\x98\\x80"}) {
    EXPECT_EQ(error(absl::StrCat("model: \"", good, "\"")), "") << good;
  }
}

TEST(TextConfig, ErrorsOfTheParserAreOneLineToo) {
  const auto error = [](const std::string& text) {
    JobConfig config;
    return std::string(ParseTextConfig(text, "a.txt", &config).message());
  };
  EXPECT_THAT(error("\x7f"), StartsWith("a.txt:1:1: Expected identifier, got: ?"));
  for (int c = 1; c < 256; ++c) {
    for (const char* before : {"", "model: ", "model: \"", "model"}) {
      const std::string text =
          error(absl::StrCat(before, std::string(1, static_cast<char>(c)), "x"));
      for (const char of : text) EXPECT_TRUE(of >= ' ' && of <= '~') << before << c << text;
    }
  }
  EXPECT_LT(error(std::string(100'000, 'm')).size(), 600u);
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
