#include "models/runtime/model_reading.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/data/data_fixture.h"

namespace soapstone::models {
namespace {

class ModelReadingTest : public DataFiles {};

TEST_F(ModelReadingTest, IsReadAsItWasWritten) {
  ModelReading reading = {.input = {.image = {1, 8, 8}, .classes = 3, .categories = {4, 5}},
                          .divisor = 0.1f,
                          .length = 7,
                          .class_names = {"a\nb", "\\x", "\xff not UTF-8"},
                          .header = {"one", "two"},
                          .vocabularies = {{"<unk>", "w"}, {"<unk>", "v"}, {"<unk>", "v"}}};
  const auto again = ParseReading(ReadingText(reading));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, reading);
}

TEST_F(ModelReadingTest, EqualVocabulariesAreWrittenOnce) {
  const ModelReading reading = {.vocabularies = {{"<unk>", "zebra"}, {"<unk>", "zebra"}}};
  const std::string text = ReadingText(reading);
  EXPECT_EQ(text.find("zebra"), text.rfind("zebra"));
}

TEST_F(ModelReadingTest, OtherTextIsAnError) {
  for (const char* text :
       {"", "{", "[]", "{}", R"({"divisor":"x"})", R"({"divisor":1,"image":[-1.5]})",
        R"({"divisor":1,"words":[["a"]],"words_of_fields":[1]})",
        R"({"divisor":1,"classes":3,"class_names":["a","b"]})",
        R"({"divisor":1,"class_names":["a"]})",
        R"({"divisor":1,"words":[["\\q"]],"words_of_fields":[0]})"}) {
    const absl::Status status = ParseReading(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), testing::Not(testing::HasSubstr("json"))) << text;
  }
}

// Later samples are scaled by the training data's largest value, not by their own.
TEST_F(ModelReadingTest, LaterTablesAreScaledAsTheTrainingData) {
  const std::string train = Write("train.csv", "a,b,label\n1,8,0\n2,4,1\n4,2,0\n8,1,1\n");
  const auto data = LoadData({.format = "csv", .path = train, .test_path = train});
  ASSERT_TRUE(data.ok()) << data.status();
  const ModelReading reading = ReadingOf(*data);
  EXPECT_EQ(reading.divisor, 8);
  EXPECT_EQ(reading.header, (std::vector<std::string>{"a", "b", "label"}));
  EXPECT_EQ(reading.input.image, (std::vector<int64_t>{1, 1, 2}));
}

}  // namespace
}  // namespace soapstone::models
