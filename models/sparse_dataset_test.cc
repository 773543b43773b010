#include "models/sparse_dataset.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SparseDatasetTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path =
        testing::TempDir() + "/sparse_dataset_" + name + "-" + std::to_string(getpid());
    std::ofstream(path) << text;
    return path;
  }
  std::string ErrorOf(const SparseDataOptions& options) {
    return std::string(LoadSparseData(options).status().message());
  }
};

TEST_F(SparseDatasetTest, ReadsLibsvm) {
  const std::string train = Write("train", "-1 3:1 11:0.5 \n\n+1\t1:2\n-1\n");
  const auto data = LoadSparseData({.format = "libsvm", .path = train, .test_path = train});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train.size(), 3u);
  EXPECT_THAT(data->train.labels, ElementsAre(-1, 1, -1));
  EXPECT_THAT(data->train.KeysOf(0), ElementsAre(3, 11));
  EXPECT_THAT(data->train.ValuesOf(0), ElementsAre(1, 0.5));
  EXPECT_THAT(data->train.KeysOf(2), ElementsAre());
  EXPECT_EQ(data->train, data->test);
}

TEST_F(SparseDatasetTest, ReadsTriples) {
  const std::string path = Write("triples", "user,item,rating\n1,20,4.5\n2\t20\t3\t881250949\n");
  const auto data = LoadSparseData({.format = "triples", .path = path, .test_path = path});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->train.labels, ElementsAre(4.5, 3));
  EXPECT_THAT(data->train.KeysOf(1), ElementsAre(2, 20));
}

TEST_F(SparseDatasetTest, NumbersWordsByFrequencyAndPairsNeighbours) {
  const std::string path = Write("text", "The cat. the DOG's the cat, rare the cat the dog!");
  const auto data = LoadSparseData(
      {.format = "text", .path = path, .test_fraction = 0.3, .window = 1, .min_count = 2});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->vocabulary, ElementsAre("the", "cat", "dog"));
  // the cat the dog the cat the | cat the dog: 3 of 10 words are held out.
  EXPECT_THAT(data->word_counts, ElementsAre(4, 2, 1));
  EXPECT_EQ(data->train.size(), 12u);
  EXPECT_THAT(data->train.KeysOf(0), ElementsAre(0, 1));
  EXPECT_THAT(data->train.KeysOf(1), ElementsAre(1, 0));
  EXPECT_EQ(data->test.size(), 4u);
}

TEST_F(SparseDatasetTest, SplitsWithoutLosingOrRepeatingSamples) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += absl::StrCat(i, " ", i + 1, ":1\n");
  const std::string path = Write("split", text);
  const SparseDataOptions options = {.format = "libsvm", .path = path, .seed = 5};
  const auto data = LoadSparseData(options);
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data->test.size(), 10u);
  std::vector<float> labels = data->train.labels;
  labels.insert(labels.end(), data->test.labels.begin(), data->test.labels.end());
  std::sort(labels.begin(), labels.end());
  for (size_t i = 0; i < 50; ++i) EXPECT_EQ(labels[i], static_cast<float>(i));
  EXPECT_EQ(LoadSparseData(options)->test, data->test);
}

TEST_F(SparseDatasetTest, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(ErrorOf({.format = "libsvm", .path = "/nowhere"}), HasSubstr("/nowhere"));
  EXPECT_THAT(ErrorOf({.format = "xml", .path = Write("a", "1 1:1\n")}), HasSubstr("'xml'"));
  const auto libsvm = [&](const std::string& text) {
    return ErrorOf({.format = "libsvm", .path = Write("bad", text)});
  };
  EXPECT_THAT(libsvm("1 1:1\nx 1:1\n"), HasSubstr(":2: 'x' is no label"));
  EXPECT_THAT(libsvm("1 1:nan\n"), HasSubstr(":1: '1:nan' is no index:value"));
  EXPECT_THAT(libsvm("1 1\n"), HasSubstr("'1' is no index:value"));
  EXPECT_THAT(libsvm("1 2:1 2:1\n"), HasSubstr("'2:1' is out of order"));
  EXPECT_THAT(libsvm("1 0:1\n"), HasSubstr("'0:1' is out of order"));
  EXPECT_THAT(libsvm("\n"), HasSubstr("no samples"));
  EXPECT_THAT(libsvm("1 1:1\n"), HasSubstr("too few samples"));
  EXPECT_THAT(ErrorOf({.format = "triples", .path = Write("t", "1 1 1\n1 1\n")}),
              HasSubstr(":2: '1 1' is no row, column and number"));
  EXPECT_THAT(ErrorOf({.format = "text", .path = Write("w", "one two")}),
              HasSubstr("0 words occur 5 times or more"));
}

}  // namespace
}  // namespace soapstone::models
