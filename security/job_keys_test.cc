#include "security/job_keys.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::security {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

template <typename T>
concept Printable = requires(std::ostream& out, const T& value) {
  out << value;
};
static_assert(!Printable<Secret>);

class JobKeysTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = absl::StrCat(testing::TempDir(), "/",
                        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(dir_);
  }
  std::string File(const char* role) const { return absl::StrCat(dir_, "/", role, ".key"); }
  static std::string Text(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::string dir_;
};

TEST_F(JobKeysTest, EachRoleReadsItsOwn) {
  const absl::StatusOr<JobKeys> made = GenerateKeys(dir_);
  ASSERT_TRUE(made.ok()) << made.status();
  for (const KeyRole role : kKeyRoles) {
    struct stat about = {};
    ASSERT_EQ(stat(File(NameOf(role)).c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777, 0600u);
    for (const std::string& path : {dir_, File(NameOf(role))}) {
      const absl::StatusOr<JobKeys> read = ReadJobKeys(path, role);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(read->role, role);
      EXPECT_EQ(read->public_keys, made->public_keys);
      const PublicKey& own = read->own();
      EXPECT_EQ(read->RoleOf({reinterpret_cast<const char*>(own.data()), own.size()}), role);
    }
  }
  EXPECT_EQ(made->RoleOf(std::string(32, 'x')), std::nullopt);
  EXPECT_EQ(made->RoleOf(""), std::nullopt);
}

TEST_F(JobKeysTest, ItsTextIsTheFileOfThatRoleAlone) {
  ASSERT_TRUE(GenerateKeys(dir_).ok());
  EXPECT_EQ(*ReadKeyText(dir_, KeyRole::kWorker), Text(File("worker")));
  EXPECT_FALSE(ReadKeyText(File("worker"), KeyRole::kServer).ok());
  chmod(File("worker").c_str(), 0644);
  EXPECT_FALSE(ReadKeyText(dir_, KeyRole::kWorker).ok());
}

TEST_F(JobKeysTest, NothingIsOverwrittenAndNothingHalfIsLeft) {
  ASSERT_TRUE(GenerateKeys(dir_).ok());
  const std::string before = Text(File("worker"));
  std::filesystem::remove(File("scheduler"));
  EXPECT_THAT(GenerateKeys(dir_).status().message(), HasSubstr("server.key"));
  EXPECT_EQ(Text(File("worker")), before);
  EXPECT_FALSE(std::filesystem::exists(File("scheduler")));
}

TEST_F(JobKeysTest, AFullDiskLeavesNothing) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {.rlim_cur = 100, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const absl::Status made = GenerateKeys(dir_).status();
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(made.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_empty(dir_));
}

TEST_F(JobKeysTest, OthersMayNotReadIt) {
  ASSERT_TRUE(GenerateKeys(dir_).ok());
  for (const mode_t mode : {0604, 0620, 0601, 0666}) {
    chmod(File("worker").c_str(), mode);
    const absl::Status read = ReadJobKeys(dir_, KeyRole::kWorker).status();
    EXPECT_THAT(read.message(), HasSubstr(absl::StrCat("chmod 600 ", File("worker"))));
  }
}

TEST_F(JobKeysTest, WhatIsNoKeyFileOfTheRoleIsNotTaken) {
  ASSERT_TRUE(GenerateKeys(dir_).ok());
  EXPECT_THAT(ReadJobKeys(File("worker"), KeyRole::kServer).status().message(),
              HasSubstr("needs server.key"));
  EXPECT_FALSE(ReadJobKeys(absl::StrCat(dir_, "/none"), KeyRole::kServer).ok());
  const std::string good = Text(File("server"));
  const size_t secret = good.find("secret: \"") + 9;
  std::string other = good;
  other[secret + 3] = other[secret + 3] == 'a' ? 'b' : 'a';
  std::string same = good;  // the worker's public key is the server's
  same.replace(same.find("worker: \"") + 9, 40, same, same.find("server: \"") + 9, 40);
  for (const std::string& text : {std::string(), good.substr(0, good.size() / 2), other, same,
                                  absl::StrCat(good, "secret: \"", good.substr(secret, 39), "\"\n"),
                                  std::string(5000, '#'), absl::StrCat(good, "oops: 1\n")}) {
    std::ofstream(File("server")) << text;
    const absl::Status read = ReadJobKeys(dir_, KeyRole::kServer).status();
    EXPECT_EQ(read.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(read.message(), HasSubstr("server.key"));
    EXPECT_THAT(std::string(read.message()), Not(HasSubstr(good.substr(secret, 8))));
  }
}

}  // namespace
}  // namespace soapstone::security
