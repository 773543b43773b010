#include "apps/predict/prediction_text.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

constexpr float kOfThree[] = {0.25f, 0.5f, 0.25f};

std::string Written(PredictionLayout layout, const PredictionText::Sample& sample) {
  PredictionText text(std::move(layout));
  text.Add(sample);
  return text.Finish();
}

TEST(PredictionTextTest, ALineASample) {
  PredictionText text({.labels = true, .classes = 3});
  text.Add({.label = "2", .probabilities = kOfThree});
  text.Add({.label = "1", .probabilities = kOfThree});
  EXPECT_EQ(text.Finish(), "sample,label,class,probability\n0,2,1,0.5\n1,1,1,0.5\n");
}

TEST(PredictionTextTest, TheLikeliestComeFirstAndOfEqualOnesTheFirst) {
  EXPECT_EQ(Written({.top = 9, .classes = 3}, {.probabilities = kOfThree}),
            "sample,class,probability,class_2,probability_2,class_3,probability_3\n"
            "0,1,0.5,0,0.25,2,0.25\n");
}

TEST(PredictionTextTest, AllProbabilitiesAreInTheOrderOfTheLabels) {
  EXPECT_EQ(Written({.probabilities = true, .class_names = {"a", "b", "c"}, .classes = 3},
                    {.probabilities = kOfThree}),
            "sample,class,probability,p_a,p_b,p_c\n0,b,0.5,0.25,0.5,0.25\n");
}

TEST(PredictionTextTest, NamesAreQuotedWhereTheyMustBe) {
  EXPECT_EQ(Written({.files = true, .class_names = {"", "a \"b\", c", ""}, .classes = 3},
                    {.name = "x,y.png", .probabilities = kOfThree}),
            "file,class,probability\n\"x,y.png\",\"a \"\"b\"\", c\",0.5\n");
}

TEST(PredictionTextTest, AValueStandsInPlaceOfClasses) {
  EXPECT_EQ(Written({.labels = true}, {.label = "4", .value = 3.75}),
            "sample,label,value\n0,4,3.75\n");
}

TEST(PredictionTextTest, JsonIsAnArrayOfTheSameNames) {
  PredictionText text({.json = true,
                       .files = true,
                       .top = 2,
                       .probabilities = true,
                       .class_names = {"a", "b", "c"},
                       .classes = 3});
  text.Add({.name = "1.png", .probabilities = kOfThree});
  text.Add({.name = "2.png", .probabilities = kOfThree});
  const auto json = nlohmann::json::parse(text.Finish());
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[1]["file"], "2.png");
  EXPECT_EQ(json[1]["class"], "b");
  EXPECT_EQ(json[1]["top"][1]["class"], "a");
  EXPECT_EQ(json[1]["probabilities"], nlohmann::json({0.25, 0.5, 0.25}));
}

TEST(PredictionTextTest, JsonOfNoSamplesIsAnEmptyArray) {
  EXPECT_TRUE(nlohmann::json::parse(PredictionText({.json = true}).Finish()).empty());
}

}  // namespace
}  // namespace soapstone::apps
