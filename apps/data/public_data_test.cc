#include "apps/data/public_data.h"

#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::Not;

std::string Sha256Of(const std::string& bytes) {
  Sha256 digest;
  digest.Update(bytes.data(), bytes.size());
  return digest.HexDigest();
}

PublicFile FileOf(const std::string& name, const std::string& contents, const std::string& flag) {
  return {.name = name, .bytes = contents.size(), .sha256 = Sha256Of(contents), .flag = flag};
}

class PublicDataTest : public ::testing::Test {
 protected:
  PublicDataTest() { fs::create_directories(from_); }
  ~PublicDataTest() override { fs::remove_all(dir_); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(from_ + "/" + name) << text;
  }
  void WriteGzip(const std::string& name, const std::string& text) const {
    const gzFile file = gzopen((from_ + "/" + name).c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
  }
  std::string Laid(const std::string& name) const {
    std::ifstream file(to_ + "/" + name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  // What is said; nothing may have been written.
  std::string Refusal() const {
    const absl::Status status = LayOut(set_, from_, to_);
    EXPECT_FALSE(status.ok());
    EXPECT_FALSE(fs::exists(to_));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
    return std::string(status.message());
  }

  const PublicDataSet set_ = {
      .name = "pairs",
      .train = "--data_format=csv",
      .files = {FileOf("one", "first", "--data_path"), FileOf("two", "second", "--test_path")}};
  const std::string dir_ = absl::StrCat(::testing::TempDir(), "public_data_", getpid());
  const std::string from_ = dir_ + "/from", to_ = dir_ + "/to/there";
};

TEST_F(PublicDataTest, IsKnownByItsContentsWhateverItsName) {
  WriteGzip("one.gz", "first");
  Write("renamed", "second");
  Write("another", "third");
  ASSERT_TRUE(LayOut(set_, from_, to_).ok()) << LayOut(set_, from_, to_);
  EXPECT_EQ(Laid("one"), "first");
  EXPECT_EQ(Laid("two"), "second");
  EXPECT_FALSE(fs::exists(to_ + "/another"));
  EXPECT_EQ(TrainFlags(set_, "d"), "--data_format=csv --data_path=d/one --test_path=d/two");
  EXPECT_TRUE(LayOut(set_, to_, to_).ok());  // what is laid out can be checked again
}

TEST_F(PublicDataTest, WhatIsNotAsPublishedIsRefused) {
  Write("one", "first");
  EXPECT_THAT(Refusal(), HasSubstr("pairs: two (6 bytes unpacked) is not in " + from_));
  Write("two", "secund");
  EXPECT_THAT(Refusal(), HasSubstr(from_ + "/two is not the published file: SHA-256 " +
                                   Sha256Of("secund") + " unpacked, not " + Sha256Of("second")));
  WriteGzip("two.gz", "second");
  fs::resize_file(from_ + "/two.gz", fs::file_size(from_ + "/two.gz") - 9);
  fs::remove(from_ + "/two");
  EXPECT_THAT(Refusal(), HasSubstr("two.gz: gzip is"));
}

TEST_F(PublicDataTest, AFileOfManyBytesIsNotReadToItsEnd) {
  Write("one", "first");
  Write("two", "second and much more");
  EXPECT_THAT(Refusal(), HasSubstr("two: more than 6 bytes"));
}

TEST_F(PublicDataTest, ASetOfOneFileIsCheckedAsAFile) {
  const PublicDataSet one = {.name = "one", .files = {FileOf("one", "first", "--data_path")}};
  WriteGzip("downloaded", "first");
  EXPECT_TRUE(LayOut(one, from_ + "/downloaded", to_).ok());
  EXPECT_EQ(Laid("one"), "first");
  EXPECT_THAT(std::string(LayOut(one, from_ + "/none", to_).message()),
              HasSubstr("there is no such file or folder"));
}

TEST_F(PublicDataTest, APlaceThatCannotBeWrittenIsNamed) {
  Write("one", "first");
  Write("two", "second");
  const std::string place = from_ + "/one/there";
  EXPECT_THAT(std::string(LayOut(set_, from_, place).message()),
              HasSubstr(absl::StrCat("--to=", place, ": cannot write ")));
}

TEST(PublicDataSets, AreWholeAndNamedOnce) {
  std::set<std::string> names, hashes;
  for (const PublicDataSet& set : PublicDataSets()) {
    EXPECT_TRUE(names.insert(set.name).second) << set.name;
    EXPECT_TRUE(PublicDataSetOf(set.name).ok());
    if (!set.example.empty()) {
      EXPECT_TRUE(fs::exists(SOAPSTONE_SOURCE_DIR "/" + set.example)) << set.example;
    }
    for (const PublicFile& file : set.files) {
      EXPECT_EQ(file.sha256.find_first_not_of("0123456789abcdef"), std::string::npos);
      EXPECT_EQ(file.sha256.size(), 64u) << file.name;
      EXPECT_TRUE(hashes.insert(file.sha256).second) << file.name;
      EXPECT_EQ(file.flag.empty(), !set.folder_flag.empty()) << file.name;
    }
  }
  EXPECT_THAT(std::string(PublicDataSetOf("mnits").status().message()),
              HasSubstr("mnist, cifar10"));
}

// The real files, where a machine has them.
TEST(PublicDataSets, AreRecognised) {
  size_t found = 0;
  for (const auto& [name, folder] :
       {std::pair("digits", "/data/digits"), std::pair("mnist", "/../shared/data/mnist"),
        std::pair("a9a", "/../shared/data/a9a-libsvm"),
        std::pair("tinyshakespeare", "/../shared/data/tinyshakespeare")}) {
    const std::string from = absl::StrCat(SOAPSTONE_SOURCE_DIR, folder);
    if (!fs::exists(from)) continue;
    const std::string to = absl::StrCat(::testing::TempDir(), "recognised_", name, "_", getpid());
    const absl::Status laid = LayOut(*PublicDataSetOf(name), from, to);
    EXPECT_TRUE(laid.ok()) << laid;
    fs::remove_all(to);
    ++found;
  }
  EXPECT_GE(found, 1u);
  if (found < 4) GTEST_SKIP() << "NOT RUN: only " << found << " of 4 sets are on this machine";
}

}  // namespace
}  // namespace soapstone::apps
