#include "models/data/recommendation/clicks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::models {
namespace {

using testing::HasSubstr;

SparseDataOptions Clicks() {
  return {.format = "clicks",
          .test_fraction = 0.25,
          .seed = 1,
          .dense_columns = 2,
          .categorical_columns = 4,
          .vocabulary = 10'000,
          .samples = 4000};
}

TEST(Clicks, ColumnsHaveFewToManyCategories) {
  const SparseTrainTest data = *LoadSparseData(Clicks());
  EXPECT_EQ(data.train.size(), 3000u);
  EXPECT_EQ(data.test.size(), 1000u);
  std::map<uint32_t, std::map<uint64_t, int>> counts;  // by column and key
  for (const SparseDataset* part : {&data.train, &data.test}) {
    EXPECT_EQ(part->dense.size(), 2 * part->size());
    for (size_t i = 0; i < part->size(); ++i) {
      EXPECT_TRUE(part->labels[i] == 0 || part->labels[i] == 1);
      ASSERT_EQ(part->KeysOf(i).size(), 4u);
      for (size_t f = 0; f < 4; ++f) {
        EXPECT_EQ(part->FieldsOf(i)[f], f);
        ++counts[part->FieldsOf(i)[f]][part->KeysOf(i)[f]];
      }
    }
  }
  const uint64_t categories[] = {10, 100, 1000, 10'000};
  for (uint32_t f = 0; f < 4; ++f) {
    EXPECT_EQ(counts[f].begin()->first, 1u);
    EXPECT_LE(counts[f].rbegin()->first, categories[f]);
    // The first has log 2 of log (n + 1).
    const double first = std::log(2) / std::log(static_cast<double>(categories[f] + 1));
    EXPECT_NEAR(counts[f][1], 4000 * first, 5 * std::sqrt(4000 * first)) << f;
  }
  EXPECT_EQ(counts[0].size(), 10u);
  EXPECT_GT(counts[3].size(), 500u);
}

// Given the categories of a pair the label is mostly one of the two; given one of them it is not.
TEST(Clicks, PairsOfCategoriesTellTheLabel) {
  SparseDataOptions options = Clicks();
  options.categorical_columns = 2;
  options.vocabulary = 25;
  const SparseDataset train = LoadSparseData(options)->train;
  const auto told = [&](const auto& key_of) {
    std::map<uint64_t, std::array<int, 2>> labels;
    for (size_t i = 0; i < train.size(); ++i) {
      ++labels[key_of(train.KeysOf(i))][train.labels[i] > 0 ? 1 : 0];
    }
    int right = 0;
    for (const auto& [key, of_key] : labels) right += std::max(of_key[0], of_key[1]);
    return static_cast<double>(right) / static_cast<double>(train.size());
  };
  EXPECT_GT(told([](const auto& keys) { return keys[0] * 100 + keys[1]; }), 0.93);
  EXPECT_LT(told([](const auto& keys) { return keys[0]; }), 0.8);
  EXPECT_LT(told([](const auto& keys) { return keys[1]; }), 0.8);
}

TEST(Clicks, AreAFunctionOfTheSeed) {
  SparseDataOptions other = Clicks();
  other.seed = 2;
  EXPECT_EQ(LoadSparseData(Clicks())->train, LoadSparseData(Clicks())->train);
  EXPECT_NE(LoadSparseData(Clicks())->train.Digest(), LoadSparseData(other)->train.Digest());
}

TEST(Clicks, SizesAreChecked) {
  const auto error = [](uint64_t vocabulary, uint64_t samples) {
    SparseDataOptions options = Clicks();
    options.vocabulary = vocabulary;
    options.samples = samples;
    return std::string(LoadSparseData(options).status().message());
  };
  EXPECT_THAT(error(1, 10), HasSubstr("clicks: vocabulary 1 is not within 2 and 1073741824"));
  EXPECT_THAT(error(10, 1), HasSubstr("clicks: samples 1 is not within 2 and "));
  EXPECT_THAT(error(10, uint64_t{1} << 40), HasSubstr("clicks: samples 1099511627776"));
}

}  // namespace
}  // namespace soapstone::models
