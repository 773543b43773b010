#include "models/formats/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "models/formats/half_float.h"
#include "models/formats/safetensors_writer.h"
#include "models/zoo/zoo.h"

namespace soapstone::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Weights : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) {
    return absl::StrCat(::testing::TempDir(), "/weights_test-", getpid(), "-", name);
  }
  // A file with this header and these many bytes of data.
  std::string Write(const std::string& header, const std::string& data) {
    std::string path = Path("file");
    std::ofstream file(path, std::ios::binary);
    const uint64_t bytes = header.size();
    file.write(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    file << header << data;
    return path;
  }
  std::string ErrorOf(const std::string& path) {
    return std::string(LoadWeights(path, graph_).status().message());
  }
  // What LoadWeights says of the file without its path.
  std::string ErrorOf(const std::string& header, const std::string& data) {
    const std::string path = Write(header, data);
    return ErrorOf(path).substr(path.size());
  }

  // fc1.weight [2, 4], fc1.bias [2]
  const Graph graph_ = *BuildModel("softmax", {.image = {1, 2, 2}, .classes = 2});
  const std::vector<float> weight_ = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> bias_ = {-1, 0.5};
};

TEST_F(Weights, AreThoseThatWereWritten) {
  const std::string path = Path("model");
  const std::vector<NamedTensor> tensors = {{"fc1.bias", {2}, bias_},
                                            {"fc1.weight", {2, 4}, weight_}};
  ASSERT_TRUE(WriteSafetensors(path, tensors, {{"model", "softmax"}}).ok());
  const auto values = LoadWeights(path, graph_);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(*values, ElementsAre(weight_, bias_));  // by parameter, not as in the file
}

TEST_F(Weights, NamesThatDifferAreListed) {
  const std::string path = Path("names");
  std::vector<NamedTensor> tensors = {{"fc.weight", {2, 4}, weight_}, {"fc1.bias", {2}, bias_}};
  ASSERT_TRUE(WriteSafetensors(path, tensors, {}).ok());
  EXPECT_EQ(ErrorOf(path),
            path +
                " does not fit softmax: 1 parameter has no tensor in it: fc1.weight; 1 tensor is "
                "no parameter of the model: fc.weight");
  tensors.clear();
  for (const char* name : {"a", "b", "c", "d", "e", "x.num_batches_tracked"}) {
    tensors.push_back({name, {2}, bias_});
  }
  ASSERT_TRUE(WriteSafetensors(path, tensors, {}).ok());
  EXPECT_THAT(ErrorOf(path), HasSubstr("5 tensors are no parameters of the model: a, b, c, d, .."));
}

TEST_F(Weights, BothShapesAreTold) {
  const std::string path = Path("shapes");
  const std::vector<NamedTensor> tensors = {{"fc1.weight", {4, 2}, weight_},
                                            {"fc1.bias", {2}, bias_}};
  ASSERT_TRUE(WriteSafetensors(path, tensors, {}).ok());
  EXPECT_EQ(ErrorOf(path), path + ": fc1.weight has shape [4, 2] in the file, [2, 4] in the model");
}

TEST_F(Weights, HalvesAreConverted) {
  std::string data(20, '\0');
  // 1 and −2 as bfloat16; then eight binary16.
  const uint16_t words[] = {0x3f80, 0xc000, 0x3c00, 0xc000, 0x0001,
                            0x7bff, 0x8000, 0x3555, 0x7c00, 0x0400};
  std::memcpy(data.data(), words, sizeof(words));
  const std::string path =
      Write(R"({"fc1.bias":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
            R"("fc1.weight":{"dtype":"F16","shape":[2,4],"data_offsets":[4,20]}})",
            data);
  const auto values = LoadWeights(path, graph_);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT((*values)[1], ElementsAre(1, -2));
  EXPECT_THAT((*values)[0], ElementsAre(1, -2, 0x1.0p-24f, 65504, -0.0f, 0x1.554p-2f,
                                        std::numeric_limits<float>::infinity(), 0x1.0p-14f));
  EXPECT_TRUE(std::signbit((*values)[0][4]));
  EXPECT_TRUE(std::isnan(FloatOfHalf(0x7e00)));
}

TEST_F(Weights, OtherTypesAreRefusedByName) {
  EXPECT_EQ(ErrorOf(R"({"fc1.bias":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},)"
                    R"("fc1.weight":{"dtype":"F32","shape":[2,4],"data_offsets":[8,40]}})",
                    std::string(40, 'x')),
            ": tensor 'fc1.bias' is I32; F32, F16 and BF16 can be read");
}

TEST_F(Weights, DamagedHeadersAreOneClearLine) {
  const std::string fine = R"("dtype":"F32","shape":[2])";
  EXPECT_EQ(ErrorOf("/nowhere/x"), "/nowhere/x: No such file or directory");
  EXPECT_EQ(ErrorOf("[1]", ""), ": no safetensors file: its header is no JSON object");
  EXPECT_EQ(ErrorOf("{\"a\":", ""), ": no safetensors file: its header is no JSON object");
  EXPECT_THAT(ErrorOf(R"({"a":{"dtype":"F32"}})", ""), HasSubstr("'a' lacks its dtype, shape"));
  EXPECT_THAT(ErrorOf(absl::StrCat("{\"a\":{", fine, R"(,"data_offsets":[0,-8]}})"), "12345678"),
              HasSubstr("'a' lacks its dtype"));
  EXPECT_EQ(
      ErrorOf(absl::StrCat("{\"a\":{", fine, R"(,"data_offsets":[0,8]}})"), "1234"),
      ": tensor 'a' lies in bytes 0 to 8 of the data, of which the file has 4: was it cut short?");
  EXPECT_EQ(ErrorOf(absl::StrCat("{\"a\":{", fine, R"(,"data_offsets":[0,4]}})"), "1234"),
            ": tensor 'a' of shape [2] and F32 has 4 bytes");
  EXPECT_THAT(
      ErrorOf(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", ""),
      HasSubstr("has 0 bytes"));
  EXPECT_EQ(ErrorOf(absl::StrCat("{\"a\":{", fine, R"(,"data_offsets":[0,8]},"b":{)", fine,
                                 R"(,"data_offsets":[4,12]}})"),
                    "123456789012"),
            ": tensor 'b' begins at byte 4 of the data, inside the end of the one before, 8");
  EXPECT_EQ(ErrorOf(absl::StrCat("{\"a\":{", fine, R"(,"data_offsets":[0,8]}})"), "123456789012"),
            ": its tensors end at byte 8 of the data, of which it has 12");
}

TEST_F(Weights, HeaderLargerThanTheFileIsNotAllocated) {
  const std::string path = Path("huge");
  for (const uint64_t bytes : {uint64_t{9}, uint64_t{1} << 62, UINT64_MAX}) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    file << "{}";
    file.close();
    EXPECT_EQ(
        ErrorOf(path),
        absl::StrCat(path, ": no safetensors file, or cut short: it says that its header has ",
                     bytes, " bytes; the file has 10"));
  }
}

// A file's text stands in messages of one line, whatever it is.
TEST_F(Weights, NamesAreEscapedAndShapesHaveFewDimensions) {
  const std::string name = R"("a\nb\u001b[2J")";
  const std::string bad = ErrorOf(
      absl::StrCat("{", name, R"(:{"dtype":"F32","shape":[1],"data_offsets":[0,2]}})"), "ab");
  EXPECT_THAT(bad, HasSubstr(R"(tensor 'a\nb\x1b[2J' of shape)"));
  const std::string unknown = ErrorOf(
      absl::StrCat("{", name, R"(:{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"), "abcd");
  EXPECT_THAT(unknown, HasSubstr(R"(no parameter of the model: a\nb\x1b[2J)"));
  std::string ones = "1";
  for (int i = 1; i < 1000; ++i) ones += ",1";
  const std::string deep = ErrorOf(
      absl::StrCat(R"({"a":{"dtype":"F32","shape":[)", ones, R"(],"data_offsets":[0,2]}})"), "ab");
  EXPECT_THAT(deep, HasSubstr("'a' has 1000 dimensions"));
}

TEST_F(Weights, AnyLengthOfAFileIsAnErrorAndNoCrash) {
  const std::string path = Path("whole");
  const std::vector<NamedTensor> tensors = {{"fc1.weight", {2, 4}, weight_},
                                            {"fc1.bias", {2}, bias_}};
  ASSERT_TRUE(WriteSafetensors(path, tensors, {}).ok());
  ASSERT_TRUE(LoadWeights(path, graph_).ok());
  const auto size = std::filesystem::file_size(path);
  for (auto length = size; length-- > 0;) {
    std::filesystem::resize_file(path, length);
    const auto values = LoadWeights(path, graph_);
    ASSERT_FALSE(values.ok()) << length;
    ASSERT_THAT(std::string(values.status().message()), HasSubstr(path));
  }
}

TEST_F(Weights, AnyByteOfAHeaderMayBeWrong) {
  const std::string path = Path("flipped");
  const std::vector<NamedTensor> tensors = {{"fc1.weight", {2, 4}, weight_},
                                            {"fc1.bias", {2}, bias_}};
  ASSERT_TRUE(WriteSafetensors(path, tensors, {}).ok());
  std::stringstream stream;
  stream << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string whole = stream.str();
  size_t refused = 0;
  for (size_t at = 0; at + 40 < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x11);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    refused += LoadWeights(path, graph_).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, (whole.size() - 40) * 2 / 3);
}

}  // namespace
}  // namespace soapstone::models
