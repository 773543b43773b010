// What tests of data sets share: a folder of their own to write files to, and all of a data set's
// values at once.
#pragma once

#include <png.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "models/data/dataset.h"

namespace soapstone::models {

class DataFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string("soapstone_") + info->test_suite_name() + info->name() +
               std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string PathOf(const std::string& name) const { return (folder_ / name).string(); }

  // `name` may have folders in it, which are made.
  std::string Write(const std::string& name, const std::string& bytes) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(PathOf(name), std::ios::binary) << bytes;
    return PathOf(name);
  }

  // pixels: [height, width, channels], channels 1 or 3.
  std::string WritePng(const std::string& name, const ImageShape& shape,
                       const std::vector<uint8_t>& pixels) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    png_image image = {};
    image.version = PNG_IMAGE_VERSION;
    image.width = static_cast<png_uint_32>(shape.width);
    image.height = static_cast<png_uint_32>(shape.height);
    image.format = shape.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    EXPECT_EQ(static_cast<int64_t>(pixels.size()), shape.elements());
    EXPECT_NE(png_image_write_to_file(&image, PathOf(name).c_str(), 0, pixels.data(), 0, nullptr),
              0);
    return PathOf(name);
  }

  std::filesystem::path folder_;
};

// What LoadData says, which is one line.
inline std::string LoadErrorOf(const DataOptions& options) {
  const auto data = LoadData(options);
  EXPECT_FALSE(data.ok()) << options.format << " " << options.path;
  std::string message(data.status().message());
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

inline MiniBatch AllOf(const Dataset& data) {
  std::vector<uint64_t> indexes(data.size());
  for (size_t i = 0; i < indexes.size(); ++i) indexes[i] = i;
  MiniBatch feed;
  data.Gather(indexes, &feed);
  return feed;
}

inline std::vector<float> FloatsOf(const Dataset& data, size_t field = 0) {
  const MiniBatch feed = AllOf(data);
  const absl::Span<const float> values = feed.Floats(field);
  return {values.begin(), values.end()};
}

inline std::vector<int32_t> IntsOf(const Dataset& data, size_t field) {
  const MiniBatch feed = AllOf(data);
  const absl::Span<const int32_t> values = feed.Ints(field);
  return {values.begin(), values.end()};
}

// `n` bytes that look random.
inline std::string NoiseBytes(size_t n, uint32_t seed = 1) {
  std::string bytes;
  uint32_t x = seed;
  for (size_t i = 0; i < n; ++i) {
    bytes.push_back(static_cast<char>((x = x * 1664525 + 1013904223) >> 24));
  }
  return bytes;
}

}  // namespace soapstone::models
