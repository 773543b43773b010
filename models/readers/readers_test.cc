// The readers under dataset.h: gzip, CSV and IDX, good files and bad ones.
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/readers/csv_reader.h"
#include "models/readers/gzip_reader.h"
#include "models/readers/idx_reader.h"

namespace soapstone::models {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
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

TEST_F(Readers, CsvNamesTheCellThatIsNoNumber) {
  EXPECT_THAT(Message(ReadCsv(Write("a.csv", "1,2\nx,3\n"))),
              EndsWith("a.csv:2: column 1: 'x' is not a number"));
  EXPECT_THAT(Message(ReadCsv(Write("a.csv", "age,y\n1,2\nx,3\n"))),
              EndsWith("a.csv:3: column 1 ('age'): 'x' is not a number"));
  EXPECT_THAT(Message(ReadCsv(Write("a.csv", "1,2\n1e99,3\n"))),
              EndsWith("a.csv:2: column 1: '1e99' is not a number that a float can hold"));
  EXPECT_THAT(Message(ReadCsv(Write("a.csv", "1,5;2,5;0\n1,5;2,5;1\n"))),
              EndsWith("a.csv:1: column 1: '1,5' is not a number; decimals need a point"));
}

// Else it would be lost in silence, as a header.
TEST_F(Readers, CsvWithAWrongCellInTheFirstRowIsAnError) {
  EXPECT_THAT(Message(ReadCsv(Write("a.csv", "1,2o,0\n1,2,1\n"))),
              EndsWith("a.csv:1: column 2: '2o' is not a number, as others of the first line are: "
                       "it is no header, which has none"));
}

TEST_F(Readers, CsvCountsMissingValues) {
  const std::string path = Write("a.csv", "a,b,y\n1,,0\n1,2,1\nNA,NaN,0\n1,?,n/a\nnull,2,1\n");
  EXPECT_THAT(Message(ReadCsv(path)),
              EndsWith("a.csv:2: column 2 ('b'): '' is a missing value, the first, of 6 in 4 of 5 "
                       "rows; fill them in, or take --missing=drop, which leaves such rows out"));
  const CsvTable table = *ReadCsv(path, {.drop_missing = true});
  EXPECT_EQ(table.missing, 6u);
  ASSERT_EQ(table.rows(), 1u);
  EXPECT_THAT(table.row(0), ElementsAre(1, 2, 1));
  EXPECT_THAT(table.lines, ElementsAre(3));
  EXPECT_THAT(table.notes.back(), EndsWith("a.csv: 4 of 5 rows left out, for 6 missing values"));
  EXPECT_THAT(Message(ReadCsv(Write("b.csv", "1,\n"), {.drop_missing = true})),
              EndsWith("b.csv: no rows without a missing value"));
}

// Else it would be taken for a header and be counted nowhere.
TEST_F(Readers, CsvWithOnlyMissingValuesInTheFirstRowHasNoHeader) {
  const CsvTable table = *ReadCsv(Write("a.csv", "?,NA,cat\n1,2,dog\n"), {.drop_missing = true});
  EXPECT_THAT(table.header, IsEmpty());
  EXPECT_EQ(table.missing, 2u);
  ASSERT_EQ(table.rows(), 1u);
  EXPECT_THAT(ReadCsv(Write("a.csv", "Na,K,y\n1,2,0\n"))->header, ElementsAre("Na", "K", "y"));
  EXPECT_THAT(ReadCsv(Write("a.csv", ",length,y\n0,2,0\n"))->header,
              ElementsAre("", "length", "y"));
  EXPECT_THAT(
      Message(ReadCsv(Write("a.csv", ",,cat\n1,2,dog\n"))),
      EndsWith("a.csv:1: column 1: '' is a missing value, the first, of 2 in 1 of 2 rows; fill "
               "them in, or take --missing=drop, which leaves such rows out"));
}

TEST_F(Readers, CsvOfAPipeIsAnError) {
  const std::string path = Write("pipe.csv", "");
  ASSERT_EQ(std::remove(path.c_str()), 0);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(Message(ReadCsv(path)), EndsWith("pipe.csv: is no file"));
}

// As pandas writes columns without names; else it would be a sample, of a class of its own.
TEST_F(Readers, CsvWithNumberedColumnsHasAHeader) {
  const CsvTable table = *ReadCsv(Write("a.csv", "0,1,2,3,target\n5,6,7,8,cat\n"));
  EXPECT_THAT(table.header, ElementsAre("0", "1", "2", "3", "target"));
  EXPECT_THAT(table.label_names, ElementsAre("cat"));
  EXPECT_THAT(table.notes, ElementsAre(EndsWith("header skipped: 0, 1, 2, 3, target")));
  EXPECT_EQ(ReadCsv(Write("a.csv", ",0,1,2,3\n0,5,6,7,1\n"))->rows(), 1u);
  EXPECT_EQ(ReadCsv(Write("a.csv", ",0,1,label\n0,5,6,1\n"))->rows(), 1u);
  EXPECT_EQ(ReadCsv(Write("a.csv", "0,1,2\n5,6,7\n"))->rows(), 2u);        // may be a sample
  EXPECT_EQ(ReadCsv(Write("a.csv", "0,1,2,4\n5,6,7,1\n"))->rows(), 2u);    // counts nothing
  EXPECT_EQ(ReadCsv(Write("a.csv", "0,1,2,3.0\n5,6,7,1\n"))->rows(), 2u);  // a number
}

TEST_F(Readers, CsvLabelsOfRowsLeftOutAreNoClasses) {
  const CsvTable table =
      *ReadCsv(Write("a.csv", "1,cat\n?,cow\n2,\n3,dog\n"), {.drop_missing = true});
  EXPECT_THAT(table.label_names, ElementsAre("cat", "dog"));
  EXPECT_THAT(table.values, ElementsAre(1, 0, 3, 1));
}

TEST_F(Readers, CsvSaysWhatItSkips) {
  EXPECT_THAT(ReadCsv(Write("a.csv", "x,y\n1,2\n"))->notes,
              ElementsAre(EndsWith("a.csv: header skipped: x, y")));
  EXPECT_THAT(ReadCsv(Write("a.csv", "a,b,c,d,e,f,g,h,i\n1,2,3,4,5,6,7,8,9\n"))->notes,
              ElementsAre(EndsWith("header skipped: a, b, c, d, e, f, g, h, ...")));
  EXPECT_TRUE(ReadCsv(Write("a.csv", "1,2\n"))->notes.empty());
  EXPECT_THAT(ReadCsv(Write("a.csv", "x,y\n0,1,2\n"))->notes,
              ElementsAre(_, EndsWith("a.csv: its header has 2 names and its first row 3 values: "
                                      "columns are told by number")));
}

TEST_F(Readers, CsvTakesOffAByteOrderMark) {
  EXPECT_THAT(ReadCsv(Write("a.csv",
                            "\xef\xbb\xbf"
                            "1,2\n"))
                  ->row(0),
              ElementsAre(1, 2));
  EXPECT_EQ(ReadCsv(Write("a.csv", "\xef\xbb\xbfx,y\n1,2\n"))->header[0], "x");
  EXPECT_THAT(Message(ReadCsv(Write("a.csv", std::string("\xff\xfe"
                                                         "1\0",
                                                         4)))),
              EndsWith("a.csv: it is UTF-16; save it as UTF-8"));
}

TEST_F(Readers, CsvCellsMayBeQuoted) {
  const CsvTable table = *ReadCsv(Write("a.csv",
                                        "\"a, \"\"b\"\"\",\"two\nlines\",\"y\" \r\n"
                                        "\"1\", \"2.5\" ,\"big, red\"\r\n"
                                        "3,4,\"say \"\"x\"\"\"\n"
                                        "5,6,5\" pipe\n"));
  EXPECT_THAT(table.header, ElementsAre("a, \"b\"", "two\nlines", "y"));
  EXPECT_THAT(table.values, ElementsAre(1, 2.5, 0, 3, 4, 1, 5, 6, 2));
  EXPECT_THAT(table.label_names, ElementsAre("big, red", "say \"x\"", "5\" pipe"));
  EXPECT_THAT(table.lines, ElementsAre(3, 4, 5));
  EXPECT_THAT(Message(ReadCsv(Write("a.csv", "1,2\n1,\"2\n3,4\n"))),
              EndsWith("a.csv:2: column 2 begins with a quote that does not end"));
  EXPECT_THAT(Message(ReadCsv(Write("a.csv", "\"1\"2,3\n"))),
              HasSubstr("a.csv:1: column 1 goes on behind its closing quote"));
  EXPECT_THAT(ReadCsv(Write("a.csv", "1,\"2\",\"3\""))->values, ElementsAre(1, 2, 3));
}

TEST_F(Readers, CsvSeparatorsAreFound) {
  for (const auto& [name, text] : {std::pair("semicolons", "a;b;y\n1;2;0\n3;4;1\n"),
                                   std::pair("tabs", "a\tb\ty\n1\t2\t0\n3\t4\t1\n")}) {
    const CsvTable table = *ReadCsv(Write("a.csv", text));
    EXPECT_THAT(table.values, ElementsAre(1, 2, 0, 3, 4, 1));
    EXPECT_THAT(table.notes[0], EndsWith(std::string("cells are separated by ") + name));
  }
  // White space around commas, and semicolons within a header.
  EXPECT_THAT(ReadCsv(Write("a.csv", "a;b;c,d\n1,\t2\n"))->values, ElementsAre(1, 2));
}

TEST_F(Readers, CsvRowsOfTabsHaveMissingValues) {
  const std::string path = Write("a.tsv", "1\t2\t0\n\t\t\n \r\n3\t4\t1\n");
  EXPECT_THAT(Message(ReadCsv(path)), HasSubstr("of 3 in 1 of 3 rows"));
  EXPECT_EQ(ReadCsv(path, {.drop_missing = true})->missing, 3u);
}

TEST_F(Readers, CsvRowsWithNothingBeforeAllOthersAreSkippedAndSaid) {
  for (const char* text : {"\t\t\n\t\t\na\tb\ty\n1\t2\t0\n3\t4\t1\n",
                           ",,\n,,\na,b,y\n1,2,0\n3,4,1\n", ",,\n , ,\n1,2,0\n3,4,1\n"}) {
    const CsvTable table = *ReadCsv(Write("a.csv", text));
    EXPECT_THAT(table.values, ElementsAre(1, 2, 0, 3, 4, 1));
    EXPECT_THAT(table.notes,
                ::testing::Contains(EndsWith("a.csv: empty rows before all others skipped: 2")));
  }
  EXPECT_THAT(Message(ReadCsv(Write("a.csv", ",,\n,,\n"))), HasSubstr("no rows"));
}

TEST_F(Readers, CsvSeparatorsAreSet) {
  const std::string path = Write("a.csv", "1;2,3\n");
  EXPECT_THAT(ReadCsv(path, {.separator = "semicolon"})->label_names, ElementsAre("2,3"));
  EXPECT_THAT(ReadCsv(Write("b.csv", "1;2\n"), {.separator = ";"})->values, ElementsAre(1, 2));
  EXPECT_THAT(Message(ReadCsv(path, {.separator = "pipe"})),
              HasSubstr("\"pipe\" is none of auto, comma, semicolon and tab"));
  EXPECT_EQ(*ParseSeparator("tab"), '\t');
  EXPECT_EQ(*ParseSeparator("auto"), '\0');
}

TEST_F(Readers, CsvLabelsAreWhereTheyAreSaidToBe) {
  const std::string path = Write("a.csv", "y,a,b\n1,2,3\n");
  EXPECT_EQ(ReadCsv(path)->label_column, 2u);
  EXPECT_EQ(ReadCsv(path, {.label_column = "1"})->label_column, 0u);
  EXPECT_EQ(ReadCsv(path, {.label_column = "a"})->label_column, 1u);
  EXPECT_THAT(Message(ReadCsv(path, {.label_column = "4"})),
              EndsWith("a.csv: label_column: 4 is not within 1 and its 3 columns"));
  EXPECT_THAT(Message(ReadCsv(path, {.label_column = "z"})),
              EndsWith("a.csv: label_column: no 'z' in its header"));
  EXPECT_THAT(Message(ReadCsv(Write("b.csv", "1,2\n"), {.label_column = "y"})),
              EndsWith("b.csv: label_column: no 'y' in it: it has no header"));
  for (const char* text : {"y,y\n1,2\n", "y,a,b\n1,2\n"}) {
    EXPECT_THAT(Message(ReadCsv(Write("c.csv", text), {.label_column = "y"})),
                HasSubstr("its header does not tell which is 'y'"));
  }
}

TEST_F(Readers, CsvLabelsAreNumbersOrNames) {
  const CsvTable table = *ReadCsv(Write("a.csv", "1,dog\n2,cat\n3,dog\n"));
  EXPECT_THAT(table.label_names, ElementsAre("dog", "cat"));
  EXPECT_THAT(table.values, ElementsAre(1, 0, 2, 1, 3, 0));
  EXPECT_THAT(Message(ReadCsv(Write("a.csv", "1,0\n2,l\n"))),
              HasSubstr("a.csv:2: column 2: 'l' is no number, unlike the labels before"));
  EXPECT_THAT(Message(ReadCsv(Write("a.csv", "1,dog\n2,1\n"))),
              HasSubstr("a.csv:2: column 2: '1' is a number, unlike the labels before"));
}

TEST_F(Readers, CsvShowsBinaryCellsEscapedAndShort) {
  const std::string cell = "\x01\x02" + std::string(5000, '\x7f');
  const std::string message = Message(ReadCsv(Write("a.csv", "1,2\n" + cell + ",2")));
  EXPECT_THAT(message, HasSubstr("\\x01\\x02"));
  EXPECT_LT(message.size(), 400u);
  EXPECT_THAT(message, Not(HasSubstr("\n")));
}

TEST_F(Readers, CsvNamesTheLineOfAnotherLength) {
  EXPECT_THAT(Message(ReadCsv(Write("a.csv", "1,2\n3,4,5\n"))),
              EndsWith("a.csv:2: 3 values, the lines before have 2"));
}

TEST_F(Readers, CsvWithoutRowsIsAnError) {
  for (const char* text : {"", "x,y\n", "\n\n", "\xef\xbb\xbf"}) {
    EXPECT_THAT(Message(ReadCsv(Write("a.csv", text))), EndsWith("a.csv: no rows"));
  }
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
