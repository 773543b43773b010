#include "models/data/dataset.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/data/data_fixture.h"

namespace soapstone::models {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::EndsWith;
using ::testing::HasSubstr;

DataOptions Digits() {
  return {.format = "digits", .path = SOAPSTONE_SOURCE_DIR "/data/digits/digits.csv.gz", .seed = 1};
}

class DatasetFiles : public DataFiles {
 protected:
  std::string WriteIdx(const std::string& name, const std::vector<char>& dims,
                       const std::string& values) {
    std::string bytes = {0, 0, 8, static_cast<char>(dims.size())};
    for (char d : dims) bytes += std::string(3, '\0') + d;
    return Write(name, bytes + values);
  }
};

TEST(Digits, AreReadScaledAndSplit) {
  const TrainTest data = *LoadData(Digits());
  EXPECT_EQ(data.train.size(), 1438u);
  EXPECT_EQ(data.test.size(), 359u);
  EXPECT_EQ(data.train.classes, 10);
  EXPECT_EQ(data.train.shape, (ImageShape{.channels = 1, .height = 8, .width = 8}));
  const std::vector<float> inputs = FloatsOf(data.train);
  EXPECT_EQ(inputs.size(), 1438u * 64);
  EXPECT_EQ(*std::max_element(inputs.begin(), inputs.end()), 1.0f);
  EXPECT_EQ(*std::min_element(inputs.begin(), inputs.end()), 0.0f);
  const std::vector<int32_t> labels = IntsOf(data.test, 1);
  EXPECT_EQ(std::set<int32_t>(labels.begin(), labels.end()).size(), 10u);
}

TEST(Digits, SplitIsAFunctionOfTheSeed) {
  DataOptions other = Digits();
  other.seed = 2;
  EXPECT_EQ(LoadData(Digits())->test.Digest(), LoadData(Digits())->test.Digest());
  EXPECT_NE(LoadData(Digits())->test.Digest(), LoadData(other)->test.Digest());
}

TEST(Digits, ScaleIsTheOptionsWhereGiven) {
  DataOptions options = Digits();
  options.scale = 8;
  const std::vector<float> inputs = FloatsOf(LoadData(options)->train);
  EXPECT_EQ(*std::max_element(inputs.begin(), inputs.end()), 2.0f);
}

TEST(Digits, GatherCopiesInOrder) {
  const Dataset train = LoadData(Digits())->train;
  const std::vector<float> inputs = FloatsOf(train);
  const std::vector<int32_t> labels = IntsOf(train, 1);
  MiniBatch feed = {.samples = 5, .fields = {{std::byte{1}}, {}, {}}};
  train.Gather({7, 3}, &feed);
  EXPECT_EQ(feed.samples, 2);
  ASSERT_EQ(feed.fields.size(), 2u);
  EXPECT_THAT(feed.Ints(1), ElementsAre(labels[7], labels[3]));
  ASSERT_EQ(feed.Floats(0).size(), 128u);
  EXPECT_TRUE(std::equal(inputs.begin() + 7 * 64, inputs.begin() + 8 * 64, feed.Floats(0).begin()));
  EXPECT_TRUE(
      std::equal(inputs.begin() + 3 * 64, inputs.begin() + 4 * 64, feed.Floats(0).begin() + 64));
}

TEST(Digits, BothGathersGiveTheSame) {
  const Dataset train = LoadData(Digits())->train;
  const std::vector<uint64_t> indexes = {7, 3, 7};
  MiniBatch feed;
  train.Gather(indexes, &feed);
  std::vector<float> inputs(1);
  std::vector<int32_t> labels(9);
  train.Gather(indexes, &inputs, &labels);
  EXPECT_THAT(inputs, ElementsAreArray(feed.Floats(0)));
  EXPECT_THAT(labels, ElementsAreArray(feed.Ints(1)));
}

TEST(Digits, FieldsAreImageAndLabel) {
  const Dataset train = LoadData(Digits())->train;
  EXPECT_THAT(train.fields(),
              ElementsAre(FieldSpec{.name = "image", .is_float = true, .shape = {1, 8, 8}},
                          FieldSpec{.name = "label", .is_float = false, .shape = {}}));
  EXPECT_TRUE(train.IsLabelledVectors());
  EXPECT_EQ(train.columns[0]->limit(), 0);
  EXPECT_EQ(train.columns[1]->limit(), 10);
  EXPECT_FALSE(train.decodes());
}

TEST(Digits, DigestIsOfContentsWhateverTheyLieIn) {
  const Dataset train = LoadData(Digits())->train;
  std::vector<uint64_t> all(train.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  EXPECT_EQ(train.Take(all).Digest(), train.Digest());
  std::swap(all[0], all[1]);
  EXPECT_NE(train.Take(all).Digest(), train.Digest());
  Dataset other = train;
  other.classes = 11;
  EXPECT_NE(other.Digest(), train.Digest());
}

TEST(Mnist, IsRead) {
  const std::string folder = SOAPSTONE_SOURCE_DIR "/../shared/data/mnist/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "NOT RUN: no MNIST in " << folder;
  const TrainTest data = *LoadData({.format = "idx",
                                    .path = folder + "train-images-idx3-ubyte.gz",
                                    .labels_path = folder + "train-labels-idx1-ubyte.gz",
                                    .test_path = folder + "t10k-images-idx3-ubyte.gz",
                                    .test_labels_path = folder + "t10k-labels-idx1-ubyte.gz"});
  EXPECT_EQ(data.train.size(), 60000u);
  EXPECT_EQ(data.test.size(), 10000u);
  EXPECT_EQ(data.train.classes, 10);
  EXPECT_EQ(data.train.shape, (ImageShape{.channels = 1, .height = 28, .width = 28}));
  double sum = 0;
  const std::vector<float> inputs = FloatsOf(data.train);
  for (float x : inputs) sum += x;
  EXPECT_NEAR(sum / static_cast<double>(inputs.size()), 0.1307, 1e-4);  // as published
}

TEST_F(DatasetFiles, CsvHasTheLabelLast) {
  const TrainTest data = *LoadData({.format = "csv",
                                    .path = Write("a.csv", "a,b,label\n2,4,1\n8,6,0\n"),
                                    .test_path = Write("b.csv", "4,4,2\n")});
  EXPECT_THAT(IntsOf(data.train, 1), ElementsAre(1, 0));
  EXPECT_THAT(FloatsOf(data.train), ElementsAre(0.25, 0.5, 1, 0.75));
  EXPECT_THAT(FloatsOf(data.test), ElementsAre(0.5, 0.5));
  EXPECT_EQ(data.train.classes, 3);
  EXPECT_EQ(data.train.shape, (ImageShape{.width = 2}));
}

TEST_F(DatasetFiles, CsvTakesAnImageShape) {
  DataOptions options = {.format = "csv",
                         .path = Write("a.csv", "1,2,3,4,5,6,7,8,0\n1,2,3,4,5,6,7,8,1\n"),
                         .height = 2,
                         .width = 2};
  EXPECT_EQ(LoadData(options)->train.shape, (ImageShape{.channels = 2, .height = 2, .width = 2}));
  options.height = 3;
  EXPECT_THAT(LoadErrorOf(options), EndsWith("a.csv: 8 values a line are no images of 3×2"));
}

TEST_F(DatasetFiles, LabelsAreClasses) {
  for (const char* label : {"-1", "0.5", "65536"}) {
    EXPECT_THAT(LoadErrorOf({.format = "csv",
                             .path = Write("a.csv", std::string("1,0\n2,") + label + "\n")}),
                HasSubstr("a.csv:2: label"));
  }
}

TEST_F(DatasetFiles, CsvLabelsMayBeNamesInAnyColumn) {
  const TrainTest data = *LoadData({.format = "csv",
                                    .path = Write("a.csv", "kind,a,b\nfrog,2,4\ncat,8,6\n"),
                                    .test_path = Write("b.csv", "kind,a,b\nfrog,4,4\n"),
                                    .label_column = "kind"});
  EXPECT_THAT(data.class_names, ElementsAre("cat", "frog"));
  EXPECT_THAT(IntsOf(data.train, 1), ElementsAre(1, 0));
  EXPECT_THAT(IntsOf(data.test, 1), ElementsAre(1));
  EXPECT_THAT(FloatsOf(data.train), ElementsAre(0.25, 0.5, 1, 0.75));
  EXPECT_EQ(data.train.classes, 2);
  EXPECT_THAT(data.notes, ElementsAre(EndsWith("a.csv: header skipped: kind, a, b"),
                                      EndsWith("a.csv: labels: 0 = cat, 1 = frog"),
                                      EndsWith("b.csv: header skipped: kind, a, b")));
}

TEST_F(DatasetFiles, HeldOutLabelsAreThoseOfTraining) {
  const auto error = [this](const char* train, const char* test) {
    return LoadErrorOf(
        {.format = "csv", .path = Write("a.csv", train), .test_path = Write("b.csv", test)});
  };
  EXPECT_THAT(error("1,cat\n2,dog\n", "1,cat\n1,cow\n"),
              EndsWith("b.csv:2: no training label is 'cow'"));
  EXPECT_THAT(error("1,cat\n2,dog\n", "1,0\n"),
              EndsWith("b.csv: its labels are numbers, those of the training data names"));
  EXPECT_THAT(error("1,0\n2,1\n", "1,cat\n"), HasSubstr("those of the training data numbers"));
  EXPECT_THAT(error("a,b,y\n1,2,0\n", "b,a,y\n1,2,0\n"),
              EndsWith("b.csv: column 1 is 'b', that of the training data 'a'"));
}

TEST_F(DatasetFiles, HeldOutShapeMustAgree) {
  EXPECT_THAT(LoadErrorOf({.format = "csv",
                           .path = Write("a.csv", "1,2,0\n"),
                           .test_path = Write("b.csv", "1,0\n")}),
              HasSubstr("b.csv: its samples have another shape"));
}

TEST_F(DatasetFiles, DigitsAreChecked) {
  EXPECT_THAT(LoadErrorOf({.format = "digits", .path = Write("a.csv", "1,2,0\n")}),
              EndsWith("a.csv: 2 values a line are no images of 8×8; other tables are of "
                       "data.format csv"));
  std::string line;
  for (int i = 0; i < 64; ++i) line += "17,";
  EXPECT_THAT(
      LoadErrorOf({.format = "digits", .path = Write("a.csv", line + "0\n" + line + "1\n")}),
      HasSubstr("row 1: value 17 is outside 0..16"));
}

TEST_F(DatasetFiles, IdxImagesAndLabelsMustAgreeInNumber) {
  EXPECT_THAT(LoadErrorOf({.format = "idx",
                           .path = WriteIdx("images", {2, 1, 2}, "abcd"),
                           .labels_path = WriteIdx("labels", {3}, "xyz")}),
              HasSubstr("labels: 3 labels for the 2 images of "));
}

TEST_F(DatasetFiles, IdxFilesMustBeOfTheirKind) {
  const std::string images = WriteIdx("images", {2, 1, 2}, "abcd");
  const std::string labels = WriteIdx("labels", {2}, std::string("\0\1", 2));
  EXPECT_THAT(LoadErrorOf({.format = "idx", .path = labels, .labels_path = images}),
              HasSubstr("labels: not a set of images"));
  EXPECT_THAT(LoadErrorOf({.format = "idx", .path = images, .labels_path = images}),
              HasSubstr("images: not a list of labels"));
  EXPECT_THAT(LoadErrorOf({.format = "idx", .path = images}), HasSubstr("need a file of labels"));
}

TEST_F(DatasetFiles, OptionsAreChecked) {
  EXPECT_THAT(LoadErrorOf({.format = "parquet"}), HasSubstr("known: digits, csv, idx, cifar10"));
  DataOptions options = Digits();
  options.test_fraction = 1;
  EXPECT_THAT(LoadErrorOf(options), HasSubstr("test_fraction 1"));
  options = Digits();
  options.scale = -1;
  EXPECT_THAT(LoadErrorOf(options), HasSubstr("scale -1"));
}

TEST_F(DatasetFiles, BothPartsHaveAtLeastOneSample) {
  const std::string path = Write("a.csv", "1,0\n2,1\n");
  for (double fraction : {0.01, 0.99}) {
    const TrainTest data = *LoadData({.format = "csv", .path = path, .test_fraction = fraction});
    EXPECT_EQ(data.train.size(), 1u);
    EXPECT_EQ(data.test.size(), 1u);
  }
  EXPECT_THAT(LoadErrorOf({.format = "csv", .path = Write("b.csv", "1,0\n")}),
              HasSubstr("too few samples"));
}

}  // namespace
}  // namespace soapstone::models
