#include "models/dataset.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::models {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

DataOptions Digits() {
  return {.format = "digits", .path = SOAPSTONE_SOURCE_DIR "/data/digits/digits.csv.gz", .seed = 1};
}

std::string ErrorOf(const DataOptions& options) {
  return std::string(LoadData(options).status().message());
}

class DatasetFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string("soapstone_dataset_") + info->name() + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& bytes) {
    std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string WriteIdx(const std::string& name, const std::vector<char>& dims,
                       const std::string& values) {
    std::string bytes = {0, 0, 8, static_cast<char>(dims.size())};
    for (char d : dims) bytes += std::string(3, '\0') + d;
    return Write(name, bytes + values);
  }

  std::filesystem::path folder_;
};

TEST(Digits, AreReadScaledAndSplit) {
  const TrainTest data = *LoadData(Digits());
  EXPECT_EQ(data.train.size(), 1438u);
  EXPECT_EQ(data.test.size(), 359u);
  EXPECT_EQ(data.train.classes, 10);
  EXPECT_EQ(data.train.shape, (ImageShape{.channels = 1, .height = 8, .width = 8}));
  EXPECT_EQ(data.train.inputs.size(), 1438u * 64);
  EXPECT_EQ(*std::max_element(data.train.inputs.begin(), data.train.inputs.end()), 1.0f);
  EXPECT_EQ(*std::min_element(data.train.inputs.begin(), data.train.inputs.end()), 0.0f);
  EXPECT_EQ(std::set<int32_t>(data.test.labels.begin(), data.test.labels.end()).size(), 10u);
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
  const TrainTest data = *LoadData(options);
  EXPECT_EQ(*std::max_element(data.train.inputs.begin(), data.train.inputs.end()), 2.0f);
}

TEST(Digits, GatherCopiesInOrder) {
  const Dataset train = LoadData(Digits())->train;
  std::vector<float> inputs;
  std::vector<int32_t> labels;
  const std::vector<uint64_t> indexes = {7, 3};
  train.Gather(indexes, &inputs, &labels);
  EXPECT_THAT(labels, ElementsAre(train.labels[7], train.labels[3]));
  ASSERT_EQ(inputs.size(), 128u);
  EXPECT_TRUE(std::equal(inputs.begin(), inputs.begin() + 64, train.inputs.begin() + 7 * 64));
  EXPECT_TRUE(std::equal(inputs.begin() + 64, inputs.end(), train.inputs.begin() + 3 * 64));
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
  for (float x : data.train.inputs) sum += x;
  EXPECT_NEAR(sum / static_cast<double>(data.train.inputs.size()), 0.1307, 1e-4);  // as published
}

TEST_F(DatasetFiles, CsvHasTheLabelLast) {
  const TrainTest data = *LoadData({.format = "csv",
                                    .path = Write("a.csv", "a,b,label\n2,4,1\n8,6,0\n"),
                                    .test_path = Write("b.csv", "4,4,2\n")});
  EXPECT_THAT(data.train.labels, ElementsAre(1, 0));
  EXPECT_THAT(data.train.inputs, ElementsAre(0.25, 0.5, 1, 0.75));
  EXPECT_THAT(data.test.inputs, ElementsAre(0.5, 0.5));
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
  EXPECT_THAT(ErrorOf(options), EndsWith("a.csv: 8 values a line are no images of 3×2"));
}

TEST_F(DatasetFiles, LabelsAreClasses) {
  for (const char* label : {"-1", "0.5", "65536"}) {
    EXPECT_THAT(
        ErrorOf({.format = "csv", .path = Write("a.csv", std::string("1,0\n2,") + label + "\n")}),
        HasSubstr("a.csv: row 2: label"));
  }
}

TEST_F(DatasetFiles, HeldOutShapeMustAgree) {
  EXPECT_THAT(ErrorOf({.format = "csv",
                       .path = Write("a.csv", "1,2,0\n"),
                       .test_path = Write("b.csv", "1,0\n")}),
              HasSubstr("b.csv: its samples have another shape"));
}

TEST_F(DatasetFiles, DigitsAreChecked) {
  EXPECT_THAT(ErrorOf({.format = "digits", .path = Write("a.csv", "1,2,0\n")}),
              HasSubstr("a.csv:"));
  std::string line;
  for (int i = 0; i < 64; ++i) line += "17,";
  EXPECT_THAT(ErrorOf({.format = "digits", .path = Write("a.csv", line + "0\n" + line + "1\n")}),
              HasSubstr("row 1: value 17 is outside 0..16"));
}

TEST_F(DatasetFiles, IdxImagesAndLabelsMustAgreeInNumber) {
  EXPECT_THAT(ErrorOf({.format = "idx",
                       .path = WriteIdx("images", {2, 1, 2}, "abcd"),
                       .labels_path = WriteIdx("labels", {3}, "xyz")}),
              HasSubstr("labels: 3 labels for the 2 images of "));
}

TEST_F(DatasetFiles, IdxFilesMustBeOfTheirKind) {
  const std::string images = WriteIdx("images", {2, 1, 2}, "abcd");
  const std::string labels = WriteIdx("labels", {2}, std::string("\0\1", 2));
  EXPECT_THAT(ErrorOf({.format = "idx", .path = labels, .labels_path = images}),
              HasSubstr("labels: not a set of images"));
  EXPECT_THAT(ErrorOf({.format = "idx", .path = images, .labels_path = images}),
              HasSubstr("images: not a list of labels"));
  EXPECT_THAT(ErrorOf({.format = "idx", .path = images}), HasSubstr("need a file of labels"));
}

TEST_F(DatasetFiles, OptionsAreChecked) {
  EXPECT_THAT(ErrorOf({.format = "png"}), HasSubstr("known: digits, idx, csv"));
  DataOptions options = Digits();
  options.test_fraction = 1;
  EXPECT_THAT(ErrorOf(options), HasSubstr("test_fraction 1"));
  options = Digits();
  options.scale = -1;
  EXPECT_THAT(ErrorOf(options), HasSubstr("scale -1"));
}

TEST_F(DatasetFiles, BothPartsHaveAtLeastOneSample) {
  const std::string path = Write("a.csv", "1,0\n2,1\n");
  for (double fraction : {0.01, 0.99}) {
    const TrainTest data = *LoadData({.format = "csv", .path = path, .test_fraction = fraction});
    EXPECT_EQ(data.train.size(), 1u);
    EXPECT_EQ(data.test.size(), 1u);
  }
  EXPECT_THAT(ErrorOf({.format = "csv", .path = Write("b.csv", "1,0\n")}),
              HasSubstr("too few samples"));
}

}  // namespace
}  // namespace soapstone::models
