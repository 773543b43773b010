#include "models/formats/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace soapstone::models {
namespace {

using ::testing::HasSubstr;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

std::string BytesOf(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

class SafetensorsWriterTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) {
    return absl::StrCat(::testing::TempDir(), "/safetensors_writer_test-", getpid(), "-", name);
  }
  const std::vector<float> a_ = {1, -2, 3.5, 4, 5, 6};
  const std::vector<float> b_ = {7};
};

TEST_F(SafetensorsWriterTest, ReadsBack) {
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
  EXPECT_EQ(bytes.substr(8 + header_bytes, 24), BytesOf(a_));
  EXPECT_EQ(bytes.substr(8 + header_bytes + 24), BytesOf(b_));
}

// Such as a word of a text that is none: a header is JSON in any case.
TEST_F(SafetensorsWriterTest, WhatIsSaidOfAModelMayBeNoUtf8) {
  const std::string path = Path("words.safetensors");
  ASSERT_TRUE(WriteSafetensors(path, {{"b", {1}, b_}}, {{"vocabulary", "a\xff"}}).ok());
  const std::string bytes = ReadAll(path);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  const auto header = nlohmann::json::parse(bytes.substr(8, header_bytes));
  EXPECT_EQ(header["__metadata__"]["vocabulary"], "a\xef\xbf\xbd");
}

TEST_F(SafetensorsWriterTest, LeavesNoTemporaryFile) {
  const std::string dir = Path("clean");
  std::filesystem::create_directories(dir);
  ASSERT_TRUE(WriteSafetensors(dir + "/m", std::vector<NamedTensor>{{"b", {1}, b_}}, {}).ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir), {}), 1);
}

// In pieces that know nothing of tensors, with a hash that is known only at the end.
TEST_F(SafetensorsWriterTest, ByAndByTheSameFile) {
  const std::string whole = Path("whole");
  const std::vector<NamedTensor> tensors = {{"a", {2, 3}, a_}, {"b", {1}, b_}};
  ASSERT_TRUE(WriteSafetensors(whole, tensors, {{"sha256", "abcd"}}).ok());
  const std::string path = Path("pieces");
  auto writer = SafetensorsWriter::Create(path, {{"a", {2, 3}}, {"b", {1}}}, {{"sha256", "----"}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_TRUE((*writer)->Append(a_.data(), 10).ok());
  EXPECT_TRUE((*writer)->Append(reinterpret_cast<const char*>(a_.data()) + 10, 14).ok());
  EXPECT_FALSE((*writer)->Finish({{"sha256", "abcd"}}).ok());  // b is missing
  EXPECT_TRUE((*writer)->Append(b_.data(), 4).ok());
  EXPECT_FALSE((*writer)->Append(b_.data(), 4).ok());  // there is no more
  EXPECT_FALSE((*writer)->Finish({{"sha256", "longer than that"}}).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE((*writer)->Finish({{"sha256", "abcd"}}).ok());
  EXPECT_EQ(ReadAll(path), ReadAll(whole));
}

TEST_F(SafetensorsWriterTest, WhatIsNotFinishedLeavesNothing) {
  const std::string dir = Path("given-up");
  std::filesystem::create_directories(dir);
  auto writer = SafetensorsWriter::Create(dir + "/m", {{"b", {1}}}, {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_FALSE(std::filesystem::is_empty(dir));
  writer->reset();
  EXPECT_TRUE(std::filesystem::is_empty(dir));
}

TEST_F(SafetensorsWriterTest, ShapeMustFitTheValues) {
  const std::vector<NamedTensor> tensors = {{"a", {2, 2}, a_}};
  EXPECT_EQ(WriteSafetensors(Path("bad"), tensors, {}).message(), "tensor a has 6 values, not 4");
  EXPECT_FALSE(std::filesystem::exists(Path("bad")));
}

TEST_F(SafetensorsWriterTest, UnwritablePlaceIsAnError) {
  const std::vector<NamedTensor> tensors = {{"b", {1}, b_}};
  EXPECT_THAT(std::string(WriteSafetensors("/nowhere/m", tensors, {}).message()),
              HasSubstr("/nowhere/m"));
  EXPECT_FALSE(CheckWritable("/nowhere/m").ok());
  EXPECT_FALSE(CheckWritable("/proc/self/cmdline/m").ok());  // a file is no folder
  EXPECT_FALSE(CheckWritable(::testing::TempDir()).ok());
  EXPECT_TRUE(CheckWritable(Path("m")).ok());
  EXPECT_TRUE(CheckWritable("m").ok());
  // A device would be replaced by the model, and a pipe waited at for ever.
  EXPECT_FALSE(CheckWritable("/dev/null").ok());
  const std::string pipe = Path("pipe");
  std::remove(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(CheckWritable(pipe).ok());
}

TEST_F(SafetensorsWriterTest, AModelIsWrittenWhereALinkLeads) {
  const std::string target = Path("behind_a_link");
  const std::string link = Path("link");
  for (const std::string& path : {target, link}) std::remove(path.c_str());
  ASSERT_EQ(symlink(target.c_str(), link.c_str()), 0);
  ASSERT_TRUE(CheckWritable(link).ok());
  auto writer = SafetensorsWriter::Create(link, {}, {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Finish({}).ok());
  char read[1024] = "";
  EXPECT_GT(readlink(link.c_str(), read, sizeof(read)), 0);
  EXPECT_EQ(access(target.c_str(), R_OK), 0);
}

}  // namespace
}  // namespace soapstone::models
