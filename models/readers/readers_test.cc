// The readers under dataset.h: gzip, CSV and IDX, good files and bad ones.
#include <unistd.h>
#include <zlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/readers/csv_reader.h"
#include "models/readers/gzip_reader.h"
#include "models/readers/idx_reader.h"

namespace soapstone::models {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// A directory of this test alone.
class Readers : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string("soapstone_readers_") + info->name() + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& bytes) {
    std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  std::string WriteGzip(const std::string& name, const std::string& bytes) {
    std::string path = (folder_ / name).string();
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return path;
  }

  std::filesystem::path folder_;
};

template <typename T>
std::string Message(const absl::StatusOr<T>& result) {
  return std::string(result.status().message());
}

std::string Noise(size_t n) {
  std::string bytes;
  uint32_t x = 1;
  for (size_t i = 0; i < n; ++i)
    bytes.push_back(static_cast<char>((x = x * 1664525 + 1013904223) >> 24));
  return bytes;
}

TEST_F(Readers, GzipAndPlainFilesReadAlike) {
  const std::string bytes = Noise(3'000'000);
  EXPECT_EQ(*ReadMaybeGzip(Write("a", bytes)), bytes);
  EXPECT_EQ(*ReadMaybeGzip(WriteGzip("a.gz", bytes)), bytes);
}

TEST_F(Readers, MissingFileIsNamed) {
  const auto result = ReadMaybeGzip("/nonexistent/x.gz");
  EXPECT_EQ(result.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(result), HasSubstr("/nonexistent/x.gz"));
}

TEST_F(Readers, FolderIsAnError) { EXPECT_FALSE(ReadMaybeGzip(folder_.string()).ok()); }

TEST_F(Readers, CutOffGzipIsAnErrorWhereverItIsCut) {
  const std::string path = WriteGzip("a.gz", Noise(5000));
  std::ifstream in(path, std::ios::binary);
  const std::string packed((std::istreambuf_iterator<char>(in)), {});
  for (size_t keep : {packed.size() - 1, packed.size() - 9, packed.size() / 2, size_t{20}}) {
    const auto result = ReadMaybeGzip(Write("cut.gz", packed.substr(0, keep)));
    EXPECT_EQ(result.status().code(), absl::StatusCode::kDataLoss) << keep;
    EXPECT_THAT(Message(result), HasSubstr("cut.gz: gzip is c")) << keep;
  }
}

TEST_F(Readers, CorruptGzipIsAnError) {
  const std::string path = WriteGzip("a.gz", std::string(5000, 'x') + Noise(5000));
  std::ifstream in(path, std::ios::binary);
  std::string packed((std::istreambuf_iterator<char>(in)), {});
  packed[packed.size() / 2] ^= 0x55;
  EXPECT_EQ(ReadMaybeGzip(Write("bad.gz", packed)).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(Readers, UnpackedSizeIsBounded) {
  const auto result = ReadMaybeGzip(WriteGzip("zeros.gz", std::string(4'000'000, '\0')), 1'000'000);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(Readers, CsvReadsNumbers) {
  const CsvTable table = *ReadCsv(Write("a.csv", "1, 2.5,-3e1\n4,5,6"));
  EXPECT_EQ(table.columns, 3u);
  EXPECT_EQ(table.rows(), 2u);
  EXPECT_THAT(table.row(0), ElementsAre(1, 2.5, -30));
  EXPECT_THAT(table.row(1), ElementsAre(4, 5, 6));
}

TEST_F(Readers, CsvLeavesOutHeaderEmptyLinesAndCarriageReturns) {
  const CsvTable table = *ReadCsv(Write("a.csv", "x,y,label\r\n1,2,3\r\n\r\n4,5,6\r\n"));
  EXPECT_EQ(table.rows(), 2u);
  EXPECT_THAT(table.row(1), ElementsAre(4, 5, 6));
}

TEST_F(Readers, CsvNamesTheLineOfABadCell) {
  EXPECT_THAT(Message(ReadCsv(Write("a.csv", "1,2\n3,x\n"))),
              EndsWith("a.csv:2: 'x' is not a number"));
  EXPECT_THAT(Message(ReadCsv(Write("a.csv", "1,2\n3,\n"))),
              EndsWith("a.csv:2: '' is not a number"));
  EXPECT_THAT(Message(ReadCsv(Write("a.csv", "1,2\n\n3,nan\n"))),
              EndsWith("a.csv:3: 'nan' is not a number"));
  EXPECT_THAT(Message(ReadCsv(Write("a.csv", "1,2\n3,1e99\n"))), HasSubstr("a.csv:2: '1e99'"));
}

TEST_F(Readers, CsvShowsBinaryCellsEscapedAndShort) {
  const std::string message = Message(ReadCsv(Write("a.csv", "1\n\x01\x02" + Noise(5000))));
  EXPECT_THAT(message, HasSubstr("\\x01\\x02"));
  EXPECT_LT(message.size(), 400u);
  EXPECT_THAT(message, Not(HasSubstr("\n")));
}

TEST_F(Readers, CsvNamesTheLineOfAnotherLength) {
  EXPECT_THAT(Message(ReadCsv(Write("a.csv", "1,2\n3,4,5\n"))),
              EndsWith("a.csv:2: 3 values, the lines before have 2"));
}

TEST_F(Readers, CsvWithoutRowsIsAnError) {
  EXPECT_THAT(Message(ReadCsv(Write("a.csv", ""))), EndsWith("a.csv: no rows"));
  EXPECT_THAT(Message(ReadCsv(Write("a.csv", "x,y\n"))), EndsWith("a.csv: no rows"));
}

std::string IdxHeader(const std::vector<uint8_t>& dims) {
  std::string bytes = {0, 0, 8, static_cast<char>(dims.size())};
  for (uint8_t d : dims) bytes += std::string(3, '\0') + static_cast<char>(d);
  return bytes;
}

TEST_F(Readers, IdxReadsItsHeaderAndBytes) {
  const IdxTensor tensor = *ReadIdx(WriteGzip("a.gz", IdxHeader({2, 1, 3}) + "abcdef"));
  EXPECT_THAT(tensor.dims, ElementsAre(2, 1, 3));
  EXPECT_THAT(tensor.values, ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
}

TEST_F(Readers, IdxOfAnotherMagicOrTypeIsAnError) {
  EXPECT_THAT(Message(ReadIdx(Write("a", "hello world"))),
              EndsWith("a: not an IDX file (bad magic number)"));
  EXPECT_THAT(Message(ReadIdx(Write("a", ""))), HasSubstr("not an IDX file"));
  EXPECT_THAT(Message(ReadIdx(Write("a", std::string("\0\0\x0D\x01", 4)))), HasSubstr("type 13"));
}

TEST_F(Readers, IdxCutOffInItsHeaderIsAnError) {
  EXPECT_THAT(Message(ReadIdx(Write("a", IdxHeader({2, 2}).substr(0, 9)))),
              HasSubstr("header is cut off"));
  EXPECT_THAT(Message(ReadIdx(Write("a", IdxHeader({})))), HasSubstr("header is cut off"));
}

TEST_F(Readers, IdxWithMoreOrFewerBytesThanItSaysIsAnError) {
  EXPECT_THAT(Message(ReadIdx(Write("a", IdxHeader({2, 2}) + "abc"))),
              EndsWith("header says 2×2 bytes, but the file has 3 after it"));
  EXPECT_THAT(Message(ReadIdx(Write("a", IdxHeader({2, 2}) + "abcde"))), HasSubstr("has 5 after"));
}

TEST_F(Readers, IdxOfAbsurdDimensionsAllocatesNothing) {
  const std::string bytes = std::string("\0\0\x08\x03", 4) + std::string(12, '\xff') + "abc";
  EXPECT_THAT(Message(ReadIdx(Write("a", bytes))),
              HasSubstr("4294967295×4294967295×4294967295 bytes, but the file has 3"));
}

}  // namespace
}  // namespace soapstone::models
