#include "apps/checkpoint_command/checkpoint_prune.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "checkpoint/best.h"
#include "checkpoint/folder.h"
#include "checkpoint/folder_lock.h"
#include "checkpoint/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A disk that sees whether the folder is locked when something in it is listed or removed.
class WatchedDisk : public checkpoint::Disk {
 public:
  explicit WatchedDisk(std::string folder) : folder_(std::move(folder)) {}
  int unlocked() const { return unlocked_; }

  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
    return disk_->Create(path);
  }
  absl::Status MakeFolder(const std::string& path) override { return disk_->MakeFolder(path); }
  absl::Status SyncFolder(const std::string& path) override { return disk_->SyncFolder(path); }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return disk_->Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override {
    Look();
    return disk_->Remove(path);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    Look();
    return disk_->List(folder);
  }
  absl::StatusOr<uint64_t> SizeOf(const std::string& path) override { return disk_->SizeOf(path); }
  absl::Status Read(const std::string& path, uint64_t offset, void* data, size_t bytes) override {
    return disk_->Read(path, offset, data, bytes);
  }

 private:
  void Look() { unlocked_ += checkpoint::FolderLock::Take(folder_).ok() ? 1 : 0; }

  std::string folder_;
  std::unique_ptr<checkpoint::Disk> disk_ = checkpoint::RealDisk();
  int unlocked_ = 0;
};

class CheckpointPruneTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "/prune-",
                           testing::UnitTest::GetInstance()->current_test_info()->name());
    ASSERT_TRUE(disk_->Remove(folder_).ok());
    ASSERT_TRUE(disk_->MakeFolder(folder_).ok());
    for (const int64_t clock : {10, 20, 30, 40}) Commit(clock);
  }
  void TearDown() override { EXPECT_TRUE(disk_->Remove(folder_).ok()); }
  void Commit(int64_t clock) {
    wire::Checkpoint manifest;
    manifest.set_clock(clock);
    manifest.set_session(7);
    ASSERT_TRUE(disk_->MakeFolder(checkpoint::UnderWay(folder_, clock, 7)).ok());
    ASSERT_TRUE(checkpoint::Commit(disk_.get(), folder_, manifest).ok());
  }
  void SayBest(int64_t clock) {
    wire::BestCheckpoint best;
    best.set_clock(clock);
    best.set_session(7);
    ASSERT_TRUE(checkpoint::WriteBest(disk_.get(), folder_, best).ok());
  }
  void Write(const std::string& name, const std::string& text) {
    const auto file = disk_->Create(absl::StrCat(folder_, "/", name));
    ASSERT_TRUE(file.ok() && (*file)->Append(text.data(), text.size()).ok());
  }
  std::vector<int64_t> Clocks() { return *checkpoint::ClocksIn(disk_.get(), folder_); }

  std::string folder_;
  std::unique_ptr<checkpoint::Disk> disk_ = checkpoint::RealDisk();
};

TEST_F(CheckpointPruneTest, TheFolderIsLockedBeforeItIsListedAndUntilAllAreGone) {
  WatchedDisk watched(folder_);
  const auto pruned = PruneCheckpoints(&watched, folder_, 1);
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  EXPECT_THAT(pruned->removed, ElementsAre(10, 20, 30));
  EXPECT_EQ(watched.unlocked(), 0);
}

TEST_F(CheckpointPruneTest, TheBestStays) {
  SayBest(20);
  const auto pruned = PruneCheckpoints(disk_.get(), folder_, 1);
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  EXPECT_THAT(pruned->kept, ElementsAre(40));
  EXPECT_EQ(pruned->best, 20);
  EXPECT_THAT(Clocks(), ElementsAre(20, 40));
  EXPECT_EQ(checkpoint::ReadBestManifest(disk_.get(), folder_)->clock(), 20);
}

TEST_F(CheckpointPruneTest, WhereNobodyKnowsWhichIsTheBestNothingIsRemoved) {
  SayBest(20);
  Write("best", "clock: 10\n");
  const auto pruned = PruneCheckpoints(disk_.get(), folder_, 1);
  EXPECT_THAT(pruned.status().message(), HasSubstr("best: is not as it was written"));
  EXPECT_THAT(Clocks(), ElementsAre(10, 20, 30, 40));
}

TEST_F(CheckpointPruneTest, WhatIsOfAnotherFormatIsSaid) {
  Write("000000010/manifest.textproto", checkpoint::Sealed("format: 1\nclock: 10\n"));
  const auto pruned = PruneCheckpoints(disk_.get(), folder_, 2);
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  EXPECT_THAT(pruned->removed, ElementsAre(10, 20));
  EXPECT_THAT(pruned->of_another, ElementsAre(10));
  EXPECT_THAT(pruned->left, IsEmpty());
}

TEST_F(CheckpointPruneTest, NothingGoesWhereWhatWouldBeKeptIsOfAnotherFormat) {
  Write("000000040/manifest.textproto", checkpoint::Sealed("format: 9\nclock: 40\n"));
  EXPECT_TRUE(absl::IsFailedPrecondition(PruneCheckpoints(disk_.get(), folder_, 1).status()));
  EXPECT_THAT(Clocks(), ElementsAre(10, 20, 30, 40));
}

}  // namespace
}  // namespace soapstone::apps
