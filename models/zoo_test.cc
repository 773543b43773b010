#include "models/zoo.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::models {
namespace {

using ::testing::HasSubstr;

constexpr ImageShape kMnist = {.channels = 1, .height = 28, .width = 28};
constexpr ImageShape kDigits = {.channels = 1, .height = 8, .width = 8};

TEST(Zoo, ParameterCountsAreAsPublished) {
  EXPECT_EQ(BuildModel("lenet5", kMnist, 10)->parameter_count(), 61706u);
}

TEST(Zoo, ParameterCountsAreAsCalculated) {
  EXPECT_EQ(BuildModel("softmax", kMnist, 10)->parameter_count(), 7850u);
  EXPECT_EQ(BuildModel("softmax", kDigits, 10)->parameter_count(), 650u);
  EXPECT_EQ(BuildModel("mlp", kDigits, 10)->parameter_count(), 17226u);
  EXPECT_EQ(BuildModel("lenet5", kDigits, 10)->parameter_count(), 31294u);
}

TEST(Zoo, ListsWhatItBuilds) {
  for (const std::string& name : ModelNames()) {
    const auto graph = BuildModel(name, kDigits, 10);
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(graph->name(), name);
  }
}

TEST(Zoo, UnknownNameListsTheKnown) {
  EXPECT_THAT(std::string(BuildModel("vgg", kMnist, 10).status().message()),
              HasSubstr("unknown model 'vgg'; known: softmax, mlp, lenet5"));
}

TEST(Zoo, WrongImageSizeIsNamed) {
  EXPECT_THAT(std::string(BuildModel("lenet5", {.height = 32, .width = 32}, 10).status().message()),
              HasSubstr("lenet5 takes images of 28×28 or 8×8, not 32×32"));
}

TEST(Zoo, OneClassIsNoClassifier) {
  EXPECT_THAT(std::string(BuildModel("mlp", kDigits, 1).status().message()),
              HasSubstr("at least two classes"));
}

}  // namespace
}  // namespace soapstone::models
