#include "models/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace soapstone::models {
namespace {

using ::testing::HasSubstr;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

class SafetensorsWriter : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) {
    return absl::StrCat(::testing::TempDir(), "/safetensors_writer_test-", getpid(), "-", name);
  }
  const std::vector<float> a_ = {1, -2, 3.5, 4, 5, 6};
  const std::vector<float> b_ = {7};
};

TEST_F(SafetensorsWriter, ReadsBack) {
  const std::string path = Path("model.safetensors");
  const std::vector<NamedTensor> tensors = {{"a.weight", {2, 3}, a_}, {"b", {1}, b_}};
  ASSERT_TRUE(WriteSafetensors(path, tensors, {{"model", "mlp"}}).ok());
  const std::string bytes = ReadAll(path);
  uint64_t header_bytes = 0;
  ASSERT_GE(bytes.size(), sizeof(header_bytes));
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  ASSERT_EQ(bytes.size(), 8 + header_bytes + 7 * sizeof(float));
  EXPECT_EQ(header_bytes % 8, 0u);
  const auto header = nlohmann::json::parse(bytes.substr(8, header_bytes));
  EXPECT_EQ(header["__metadata__"]["model"], "mlp");
  EXPECT_EQ(header["a.weight"]["dtype"], "F32");
  EXPECT_EQ(header["a.weight"]["shape"], (std::vector<int>{2, 3}));
  EXPECT_EQ(header["a.weight"]["data_offsets"], (std::vector<int>{0, 24}));
  EXPECT_EQ(header["b"]["data_offsets"], (std::vector<int>{24, 28}));
  EXPECT_EQ(std::memcmp(bytes.data() + 8 + header_bytes, a_.data(), 24), 0);
  EXPECT_EQ(std::memcmp(bytes.data() + 8 + header_bytes + 24, b_.data(), 4), 0);
}

TEST_F(SafetensorsWriter, LeavesNoTemporaryFile) {
  const std::string dir = Path("clean");
  std::filesystem::create_directories(dir);
  ASSERT_TRUE(WriteSafetensors(dir + "/m", std::vector<NamedTensor>{{"b", {1}, b_}}, {}).ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir), {}), 1);
}

TEST_F(SafetensorsWriter, ShapeMustFitTheValues) {
  const std::vector<NamedTensor> tensors = {{"a", {2, 2}, a_}};
  EXPECT_EQ(WriteSafetensors(Path("bad"), tensors, {}).message(), "tensor a has 6 values, not 4");
  EXPECT_FALSE(std::filesystem::exists(Path("bad")));
}

TEST_F(SafetensorsWriter, UnwritablePlaceIsAnError) {
  const std::vector<NamedTensor> tensors = {{"b", {1}, b_}};
  EXPECT_THAT(std::string(WriteSafetensors("/nowhere/m", tensors, {}).message()),
              HasSubstr("/nowhere/m"));
  EXPECT_FALSE(CheckWritable("/nowhere/m").ok());
  EXPECT_FALSE(CheckWritable(::testing::TempDir()).ok());
  EXPECT_TRUE(CheckWritable(Path("m")).ok());
  EXPECT_TRUE(CheckWritable("m").ok());
}

}  // namespace
}  // namespace soapstone::models
