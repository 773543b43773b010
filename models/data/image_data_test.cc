// CIFAR and folders of images: good files and bad ones.
#include "models/data/image_data.h"

#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/data/data_fixture.h"
#include "models/readers/png_reader.h"

namespace soapstone::models {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr size_t kPixels = 3 * 32 * 32;

// A record of CIFAR-10 whose pixels are all `value`, but for the first of the green plane.
std::string Record10(int label, int value) {
  std::string record(1 + kPixels, static_cast<char>(value));
  record[0] = static_cast<char>(label);
  record[1 + 32 * 32] = static_cast<char>(255);
  return record;
}

std::string Record100(int coarse, int fine, int value) {
  return std::string(1, static_cast<char>(coarse)) + std::string(1, static_cast<char>(fine)) +
         std::string(kPixels, static_cast<char>(value));
}

class CifarFiles : public DataFiles {};

TEST_F(CifarFiles, AFileIsReadAndScaled) {
  const std::string train = Write("train.bin", Record10(3, 51) + Record10(9, 0));
  const std::string test = Write("test.bin", Record10(1, 102));
  const TrainTest data = *LoadData({.format = "cifar10", .path = train, .test_path = test});
  EXPECT_EQ(data.train.shape, (ImageShape{.channels = 3, .height = 32, .width = 32}));
  EXPECT_EQ(data.train.classes, 10);
  EXPECT_THAT(IntsOf(data.train, 1), ElementsAre(3, 9));
  EXPECT_THAT(IntsOf(data.test, 1), ElementsAre(1));
  const std::vector<float> inputs = FloatsOf(data.train);
  ASSERT_EQ(inputs.size(), 2 * kPixels);
  EXPECT_EQ(inputs[0], 0.2f);
  EXPECT_EQ(inputs[32 * 32], 1.0f);  // the first of the green plane
  EXPECT_EQ(inputs[kPixels], 0.0f);
}

TEST_F(CifarFiles, TheFolderHasBatchesAndTheHeldOutOne) {
  Write("c/data_batch_2.bin", Record10(2, 0));
  Write("c/data_batch_1.bin", Record10(1, 0));
  Write("c/test_batch.bin", Record10(7, 0));
  Write("c/readme.html", "x");
  const TrainTest data = *LoadData({.format = "cifar10", .path = PathOf("c")});
  EXPECT_THAT(IntsOf(data.train, 1), ElementsAre(1, 2));
  EXPECT_THAT(IntsOf(data.test, 1), ElementsAre(7));
}

TEST_F(CifarFiles, Cifar100HasTheFineLabel) {
  Write("c/train.bin", Record100(4, 99, 0) + Record100(19, 0, 0));
  Write("c/test.bin", Record100(1, 50, 255));
  const TrainTest data = *LoadData({.format = "cifar100", .path = PathOf("c")});
  EXPECT_EQ(data.train.classes, 100);
  EXPECT_THAT(IntsOf(data.train, 1), ElementsAre(99, 0));
  EXPECT_THAT(IntsOf(data.test, 1), ElementsAre(50));
  EXPECT_THAT(FloatsOf(data.test), Each(1.0f));
}

TEST_F(CifarFiles, AShareIsHeldOutWhereThereIsNoTestFile) {
  std::string records;
  for (int i = 0; i < 10; ++i) records += Record10(i, i);
  const TrainTest data = *LoadData(
      {.format = "cifar10", .path = Write("a.bin", records), .test_fraction = 0.3, .seed = 4});
  std::vector<int32_t> labels = IntsOf(data.train, 1);
  EXPECT_EQ(labels.size(), 7u);
  for (const int32_t label : IntsOf(data.test, 1)) labels.push_back(label);
  std::sort(labels.begin(), labels.end());
  EXPECT_THAT(labels, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST_F(CifarFiles, BadOnesAreNamed) {
  EXPECT_THAT(LoadErrorOf({.format = "cifar10", .path = PathOf("none.bin")}),
              HasSubstr("none.bin: No such file"));
  const std::string cut = (Record10(1, 0) + Record10(2, 0)).substr(0, 5000);
  EXPECT_THAT(LoadErrorOf({.format = "cifar10", .path = Write("a.bin", cut)}),
              EndsWith("a.bin: record 2 is cut off: it has 1927 bytes; records of CIFAR-10 have "
                       "3073"));
  EXPECT_THAT(
      LoadErrorOf({.format = "cifar10", .path = Write("a.bin", Record10(1, 0) + Record10(10, 0))}),
      EndsWith("a.bin: record 2: label 10 is not below 10"));
  EXPECT_THAT(LoadErrorOf({.format = "cifar100", .path = Write("a.bin", Record100(0, 100, 0))}),
              EndsWith("a.bin: record 1: label 100 is not below 100"));
  EXPECT_THAT(LoadErrorOf({.format = "cifar10", .path = Write("a.bin", "")}),
              EndsWith("a.bin: no records"));
  Write("empty/x", "");
  EXPECT_THAT(LoadErrorOf({.format = "cifar10", .path = PathOf("empty")}),
              EndsWith("empty: no data_batch*.bin in it"));
}

class ImageFolders : public DataFiles {
 protected:
  static std::vector<uint8_t> Ramp(int64_t n, uint8_t first) {
    std::vector<uint8_t> bytes(static_cast<size_t>(n));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(first + i);
    return bytes;
  }
  DataOptions Folder() const {
    return {.format = "images", .path = PathOf("train"), .test_path = PathOf("test")};
  }
  const ImageShape grey_ = {.channels = 1, .height = 2, .width = 3};
  const ImageShape colour_ = {.channels = 3, .height = 2, .width = 2};
};

TEST_F(ImageFolders, PngsAreReadByClassAndName) {
  WritePng("train/dog/2.png", grey_, Ramp(6, 20));
  WritePng("train/dog/10.PNG", grey_, Ramp(6, 10));
  WritePng("train/cat/a.png", grey_, Ramp(6, 0));
  Write("train/cat/.hidden", "x");
  WritePng("test/dog/x.png", grey_, Ramp(6, 51));
  const TrainTest data = *LoadData(Folder());
  EXPECT_EQ(data.train.shape, grey_);
  EXPECT_EQ(data.train.classes, 2);
  EXPECT_TRUE(data.train.decodes());
  EXPECT_THAT(IntsOf(data.train, 1), ElementsAre(0, 1, 1));
  EXPECT_THAT(IntsOf(data.test, 1), ElementsAre(1));
  const std::vector<float> inputs = FloatsOf(data.train);
  EXPECT_EQ(inputs[5], 5 / 255.0f);
  EXPECT_EQ(inputs[6], 10 / 255.0f);
  EXPECT_EQ(inputs[12], 20 / 255.0f);
  EXPECT_EQ(FloatsOf(data.test)[0], 0.2f);
}

TEST_F(ImageFolders, ColoursAreByPlane) {
  WritePng("train/a/1.png", colour_, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  WritePng("train/a/2.png", colour_, Ramp(12, 0));
  DataOptions options = Folder();
  options.scale = 1;
  options.test_path = options.path;
  const std::vector<float> inputs = FloatsOf(LoadData(options)->train);
  EXPECT_THAT(std::vector<float>(inputs.begin(), inputs.begin() + 12),
              ElementsAre(1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12));
}

TEST_F(ImageFolders, GreyBecomesColourWhereAskedFor) {
  WritePng("train/a/1.png", grey_, Ramp(6, 0));
  DataOptions options = Folder();
  options.test_path = options.path;
  options.channels = 3;
  options.scale = 1;
  const TrainTest data = *LoadData(options);
  EXPECT_EQ(data.train.shape.channels, 3);
  EXPECT_THAT(FloatsOf(data.train),
              ElementsAre(0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5));
}

TEST_F(ImageFolders, RawAndPngGiveTheSame) {
  WritePng("png/a/1.png", colour_, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  Write("raw/a/1.raw", {1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12});
  DataOptions options = {.format = "images",
                         .path = PathOf("png"),
                         .test_path = PathOf("png"),
                         .height = 2,
                         .width = 2,
                         .channels = 3};
  const std::vector<float> png = FloatsOf(LoadData(options)->train);
  options.path = options.test_path = PathOf("raw");
  const TrainTest raw = *LoadData(options);
  EXPECT_EQ(FloatsOf(raw.train), png);
  EXPECT_FALSE(raw.train.decodes());
}

TEST_F(ImageFolders, DigestIsOfTheFiles) {
  WritePng("train/a/1.png", grey_, Ramp(6, 0));
  WritePng("train/a/2.png", grey_, Ramp(6, 9));
  DataOptions options = Folder();
  options.test_path = options.path;
  const std::string digest = LoadData(options)->train.Digest();
  EXPECT_EQ(LoadData(options)->train.Digest(), digest);
  WritePng("train/a/2.png", grey_, Ramp(6, 8));
  EXPECT_NE(LoadData(options)->train.Digest(), digest);
}

TEST_F(ImageFolders, AnotherSizeIsNamed) {
  WritePng("train/a/1.png", grey_, Ramp(6, 0));
  WritePng("train/a/2.png", colour_, Ramp(12, 0));
  EXPECT_THAT(LoadErrorOf(Folder()),
              EndsWith("train/a/2.png: an image of 2×2, where 2×3 is needed (height×width)"));
}

TEST_F(ImageFolders, WhatIsNoPngIsNamed) {
  Write("train/a/1.png", "GIF89a and more");
  EXPECT_THAT(LoadErrorOf(Folder()), EndsWith("train/a/1.png: not a PNG"));
  Write("train/a/1.png", "");
  EXPECT_THAT(LoadErrorOf(Folder()), EndsWith("train/a/1.png: not a PNG"));
}

TEST_F(ImageFolders, ACutOrCorruptPngIsNamedWhereverItIs) {
  const std::string path =
      WritePng("whole.png", {.channels = 1, .height = 40, .width = 40}, Ramp(1600, 0));
  std::ifstream in(path, std::ios::binary);
  const std::string png((std::istreambuf_iterator<char>(in)), {});
  for (const size_t keep : {size_t{8}, size_t{20}, size_t{33}, png.size() / 2, png.size() - 20}) {
    Write("train/a/1.png", png.substr(0, keep));
    EXPECT_THAT(LoadErrorOf(Folder()), HasSubstr("train/a/1.png: PNG is cut off or corrupt: "))
        << keep;
  }
  std::string bad = png;
  bad[50] ^= 0x55;
  Write("train/a/1.png", bad);
  EXPECT_THAT(LoadErrorOf(Folder()), HasSubstr("train/a/1.png: PNG is cut off or corrupt: "));
}

// What libpng makes of any bytes after a good signature is an error or an image; never more memory
// than the size that was asked for.
// A header of 16384×16384 pixels before the data of 48: 805 MB would be taken for its word alone.
TEST_F(ImageFolders, PixelsThatAFileCannotHoldTakeNoMemory) {
  std::ifstream file(WritePng("small.png", {.channels = 1, .height = 8, .width = 6}, Ramp(48, 0)),
                     std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  std::string png = bytes.str();
  const std::string side("\0\0\x40\0", 4);
  png.replace(16, 4, side).replace(20, 4, side);
  const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(png.data() + 12), 17);
  for (int i = 0; i < 4; ++i) png[29 + i] = static_cast<char>(crc >> (24 - 8 * i));
  const absl::StatusOr<ImageShape> shape = PngShape(png, "x");
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->height, 16384);
  std::vector<uint8_t> pixels;
  const absl::Status decoded = DecodePng(png, "x", *shape, &pixels);
  EXPECT_THAT(std::string(decoded.message()), HasSubstr("cannot hold an image of 16384"));
  EXPECT_EQ(pixels.capacity(), 0u);
}

TEST_F(ImageFolders, DamagedPngsNeverDie) {
  const std::string path =
      WritePng("whole.png", {.channels = 1, .height = 8, .width = 8}, Ramp(64, 0));
  std::ifstream in(path, std::ios::binary);
  const std::string png((std::istreambuf_iterator<char>(in)), {});
  std::vector<uint8_t> pixels;
  size_t errors = 0;
  for (size_t at = 8; at < png.size(); ++at) {
    for (const char flip : {'\x01', '\x80', '\xff'}) {
      std::string bad = png;
      bad[at] = static_cast<char>(bad[at] ^ flip);
      const ImageShape shape = {.channels = 1, .height = 8, .width = 8};
      if (!DecodePng(bad, "x", shape, &pixels).ok()) ++errors;
    }
  }
  EXPECT_GT(errors, png.size());
}

TEST_F(ImageFolders, OtherFilesAndEmptyFoldersAreNamed) {
  EXPECT_THAT(LoadErrorOf(Folder()), HasSubstr("train: No such file"));
  std::filesystem::create_directories(PathOf("train"));
  EXPECT_THAT(LoadErrorOf(Folder()), HasSubstr("train: no folders in it"));
  std::filesystem::create_directories(PathOf("train/a"));
  EXPECT_THAT(LoadErrorOf(Folder()), EndsWith("train/a: no images in it"));
  Write("train/a/x.jpg", "x");
  EXPECT_THAT(LoadErrorOf(Folder()), EndsWith("train/a/x.jpg: neither .png nor .raw"));
}

TEST_F(ImageFolders, RawFilesNeedTheirShape) {
  Write("train/a/1.raw", "12345");
  DataOptions options = Folder();
  EXPECT_THAT(LoadErrorOf(options), HasSubstr("1.raw: raw images need data.channels"));
  options.channels = options.height = 2;
  options.width = 1;
  EXPECT_THAT(LoadErrorOf(options), EndsWith("1.raw: 5 bytes; a raw image of 2×2×1 has 4"));
  options.height = 1'000'000;
  EXPECT_THAT(LoadErrorOf(options), HasSubstr("at most 16384, not 1000000"));
}

TEST_F(ImageFolders, HeldOutClassesAreThoseOfTheTraining) {
  WritePng("train/a/1.png", grey_, Ramp(6, 0));
  WritePng("test/b/1.png", grey_, Ramp(6, 0));
  EXPECT_THAT(LoadErrorOf(Folder()), EndsWith("test/b: the training data have no such class"));
}

}  // namespace
}  // namespace soapstone::models
