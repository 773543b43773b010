#include "base/nearest_name.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> kNames = {"bsp", "ssp", "essp", "async", "alexnet", "bert_base"};

TEST(NearestNames, LettersInsertedLeftOutReplacedAndExchanged) {
  EXPECT_THAT(NearestNames("alexxnet", kNames), ElementsAre("alexnet"));
  EXPECT_THAT(NearestNames("alexnt", kNames), ElementsAre("alexnet"));
  EXPECT_THAT(NearestNames("bert-base", kNames), ElementsAre("bert_base"));
  EXPECT_THAT(NearestNames("asnyc", kNames), ElementsAre("async"));
}

TEST(NearestNames, CaseDoesNotCount) {
  EXPECT_THAT(NearestNames("ALEXNET", kNames), ElementsAre("alexnet"));
}

TEST(NearestNames, AllThatAreEquallyNearInTheirOrder) {
  EXPECT_THAT(NearestNames("ssq", kNames), ElementsAre("ssp"));
  EXPECT_THAT(NearestNames("sp", kNames), ElementsAre("bsp", "ssp"));
}

TEST(NearestNames, WhatIsFarIsNotNamed) {
  EXPECT_THAT(NearestNames("nonesuch", kNames), IsEmpty());
  EXPECT_THAT(NearestNames("", kNames), IsEmpty());
  EXPECT_THAT(NearestNames(std::string(100'000, 'x'), kNames), IsEmpty());
}

TEST(DidYouMean, IsAPartOfASentenceOrNothing) {
  EXPECT_EQ(DidYouMean("sp", kNames), "; did you mean bsp or ssp?");
  EXPECT_EQ(DidYouMean("nonesuch", kNames), "");
}

}  // namespace
}  // namespace soapstone
