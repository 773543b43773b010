#include "models/data/sparse_dataset.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
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
    std::string path =
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

TEST_F(SparseDatasetTest, ReadsCriteo) {
  const std::string path = Write("criteo", "1\t2\t\ta0\t\r\n\n0\t-3\t0\t\t1,Ff\n");
  const SparseDataOptions options = {.format = "criteo",
                                     .path = path,
                                     .test_path = path,
                                     .dense_columns = 2,
                                     .categorical_columns = 2};
  const auto data = LoadSparseData(options);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->train.labels, ElementsAre(1, 0));
  EXPECT_THAT(data->train.DenseOf(0), ElementsAre(testing::FloatEq(std::log(3.0f)), 0));
  EXPECT_THAT(data->train.DenseOf(1), ElementsAre(0, 0));
  EXPECT_THAT(data->train.KeysOf(0), ElementsAre(0xa1, 0));  // category + 1; 0: missing
  EXPECT_THAT(data->train.FieldsOf(0), ElementsAre(0, 1));
  EXPECT_THAT(data->train.KeysOf(1), ElementsAre(0, 2, 0x100));
  EXPECT_THAT(data->train.FieldsOf(1), ElementsAre(0, 1, 1));
  const auto split = LoadSparseData({.format = "criteo",
                                     .path = path,
                                     .test_fraction = 0.5,
                                     .dense_columns = 2,
                                     .categorical_columns = 2});
  ASSERT_TRUE(split.ok()) << split.status();
  for (const SparseDataset* part : {&split->train, &split->test}) {
    const size_t line = part->labels.at(0) > 0 ? 0 : 1;
    EXPECT_EQ(part->KeysOf(0), data->train.KeysOf(line));
    EXPECT_EQ(part->FieldsOf(0), data->train.FieldsOf(line));
    EXPECT_EQ(part->DenseOf(0), data->train.DenseOf(line));
  }
}

TEST_F(SparseDatasetTest, SaysWhatIsWrongWithCriteo) {
  const auto why = [&](const std::string& line) {
    return ErrorOf({.format = "criteo",
                    .path = Write("bad_criteo", "1\t2\ta0\n" + line),
                    .dense_columns = 1,
                    .categorical_columns = 1});
  };
  EXPECT_THAT(why("1\t2\n"), HasSubstr(":2: '1\\t2' has 2 columns, not 3: a label, 1 numbers"));
  EXPECT_THAT(why("2\t2\ta0"), HasSubstr(":2: '2' is no label, 0 or 1"));
  EXPECT_THAT(why("1\t2.5\ta0"), HasSubstr(":2: '2.5' is no whole number"));
  EXPECT_THAT(why("1\t2\txyz"), HasSubstr(":2: 'xyz' is no category"));
  EXPECT_THAT(why("1\t2\ta,"), HasSubstr(":2: '' is no category"));
  EXPECT_THAT(why("1\t2\t0123456789abcdef"), HasSubstr("is no category of 1 to 15"));
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
