#include "checkpoint/folder.h"

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/sha256.h"
#include "checkpoint/folder_lock.h"
#include "checkpoint/part.h"
#include "checkpoint/simulated_disk.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

absl::Status TakeAny(const wire::Checkpoint& /*manifest*/) { return absl::OkStatus(); }

// Commits one of a single part.
absl::Status Write(Disk* disk, int64_t clock, uint64_t session = 7) {
  const std::string folder = UnderWay("d", clock, session);
  const std::vector<float> values(1000, static_cast<float>(clock));
  wire::Checkpoint manifest;
  manifest.set_clock(clock);
  manifest.set_session(session);
  manifest.set_job("model: \"mlp\"\ntraining {\n  epochs: 3\n}\n");
  if (absl::Status made = disk->MakeFolder(folder); !made.ok()) return made;
  const auto sums = WritePart(disk, folder + "/" + PartFile(0), clock,
                              {{.param = "w", .box = WholeBox({1000}), .values = values}});
  if (!sums.ok()) return sums.status();
  AddPart(PartFile(0), *sums, &manifest);
  return Commit(disk, "d", manifest);
}

struct Three {
  SimulatedDisk disk;
  Three() {
    EXPECT_TRUE(disk.MakeFolder("d").ok());
    for (const int64_t clock : {100, 200, 300}) EXPECT_TRUE(Write(&disk, clock).ok());
  }
  int64_t NewestClock(std::vector<std::string>* passed_over) {
    const auto newest = Newest(&disk, "d", TakeAny, passed_over);
    EXPECT_TRUE(newest.ok()) << newest.status();
    return newest.ok() && newest->has_value() ? (*newest)->clock() : 0;
  }
};

TEST(FolderTest, TheNewestIsFoundAndOfADamagedOneTheOneBefore) {
  Three three;
  std::vector<std::string> passed_over;
  EXPECT_EQ(three.NewestClock(&passed_over), 300);
  EXPECT_THAT(passed_over, IsEmpty());
  const auto manifest = ReadManifest(&three.disk, "d", 300);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->job(), "model: \"mlp\" training {   epochs: 3 } ");

  (*three.disk.Contents("d/000000300/shard-0.safetensors"))[2000] ^= 1;
  EXPECT_EQ(three.NewestClock(&passed_over), 200);
  EXPECT_THAT(passed_over, ElementsAre(HasSubstr("checkpoint 300 passed over: d/000000300/"
                                                 "shard-0.safetensors: MiB 0")));
  three.disk.Contents("d/000000200/manifest.textproto")->back() = 'x';
  passed_over.clear();
  EXPECT_EQ(three.NewestClock(&passed_over), 100);
  EXPECT_EQ(passed_over.size(), 2u);
}

// Single bits anywhere in the files of a checkpoint: each is found, its place is named, and the one
// before is gone on from.
TEST(FolderTest, TwoThousandFlippedBitsAreFound) {
  Three three;
  std::vector<std::string> files;
  for (const std::string& path : three.disk.Paths()) {
    if (path.starts_with("d/000000300/")) files.push_back(path);
  }
  ASSERT_EQ(files.size(), 2u);
  const CounterRandom random(1, RandomUse::kTest, 0);
  uint64_t draw = 0;
  size_t named = 0;
  for (int flip = 0; flip < 2'000; ++flip) {
    const std::string& path = files[random.Below(draw++, files.size())];
    std::string* bytes = three.disk.Contents(path);
    char& byte = (*bytes)[random.Below(draw++, bytes->size())];
    const char mask = static_cast<char>(1 << random.Below(draw++, 8));
    byte ^= mask;
    std::vector<std::string> passed_over;
    EXPECT_EQ(three.NewestClock(&passed_over), 200) << path;
    ASSERT_EQ(passed_over.size(), 1u);
    EXPECT_THAT(passed_over[0], HasSubstr(path));
    if (path.ends_with(".safetensors")) {
      EXPECT_THAT(passed_over[0],
                  testing::AnyOf(HasSubstr("from w[0,1000) on"), HasSubstr("the header in it")));
      ++named;
    }
    byte ^= mask;
  }
  EXPECT_GT(named, 500u);
}

TEST(FolderTest, EveryByteOfAManifestCounts) {
  Three three;
  std::string* text = three.disk.Contents("d/000000300/manifest.textproto");
  for (size_t at = 0; at < text->size(); ++at) {
    (*text)[at] ^= 4;
    EXPECT_TRUE(absl::IsDataLoss(ReadManifest(&three.disk, "d", 300).status())) << at;
    (*text)[at] ^= 4;
  }
  EXPECT_TRUE(ReadManifest(&three.disk, "d", 300).ok());
}

TEST(FolderTest, ARenamedOneIsNoneAndNeitherIsAFolderWithoutAManifest) {
  Three three;
  ASSERT_TRUE(three.disk.Rename("d/000000300", "d/000000400").ok());
  EXPECT_TRUE(absl::IsDataLoss(ReadManifest(&three.disk, "d", 400).status()));
  ASSERT_TRUE(three.disk.Remove("d/000000200/manifest.textproto").ok());
  std::vector<std::string> passed_over;
  EXPECT_EQ(three.NewestClock(&passed_over), 100);
  EXPECT_EQ(passed_over.size(), 2u);
}

// Another format is no damage: nothing is to be begun in its place, and it is not to be removed.
TEST(FolderTest, AnotherFormatIsRefused) {
  Three three;
  std::string* text = three.disk.Contents("d/000000300/manifest.textproto");
  std::string lines = "format: 3\nnew_field: 1\n";
  Sha256 sum;
  sum.Update(lines.data(), lines.size());
  *text = absl::StrCat(lines, "# sha256 ", sum.HexDigest(), "\n");
  std::vector<std::string> passed_over;
  const auto newest = Newest(&three.disk, "d", TakeAny, &passed_over);
  EXPECT_TRUE(absl::IsFailedPrecondition(newest.status()));
  EXPECT_THAT(newest.status().message(), HasSubstr("another format (format: 3)"));
}

TEST(FolderTest, OneThatIsNotTakenIsRefusedAndNotPassedOver) {
  Three three;
  std::vector<std::string> passed_over;
  const auto newest = Newest(
      &three.disk, "d",
      [](const wire::Checkpoint&) { return absl::FailedPreconditionError("another job's"); },
      &passed_over);
  EXPECT_EQ(newest.status().message(), "another job's");
}

TEST(FolderTest, PruningKeepsWhatItIsTold) {
  Three three;
  ASSERT_TRUE(Prune(&three.disk, "d", {200, 300}).ok());
  const auto clocks = ClocksIn(&three.disk, "d");
  ASSERT_TRUE(clocks.ok());
  EXPECT_THAT(*clocks, ElementsAre(200, 300));
}

TEST(FolderTest, AFolderWithOtherThingsIsRefused) {
  Three three;
  ASSERT_TRUE(three.disk.Create("d/thesis.tex").ok());
  EXPECT_THAT(ClocksIn(&three.disk, "d").status().message(), HasSubstr("it has thesis.tex"));
  EXPECT_FALSE(Prune(&three.disk, "d", {}).ok());
  EXPECT_NE(three.disk.Contents("d/thesis.tex"), nullptr);
}

TEST(FolderTest, TheSameClockAgainTakesItsPlace) {
  Three three;
  (*three.disk.Contents("d/000000300/shard-0.safetensors"))[2000] ^= 1;
  ASSERT_TRUE(Write(&three.disk, 300, 8).ok());
  std::vector<std::string> passed_over;
  EXPECT_EQ(three.NewestClock(&passed_over), 300);
  for (const std::string& path : three.disk.Paths()) EXPECT_EQ(path.find(".tmp"), path.npos);
}

// Wherever it is full: nothing half done stays, and what was there does.
TEST(FolderTest, OnAFullDiskNothingOfTheNewOneStays) {
  for (uint64_t room = 0; room < 9000; room += 512) {
    Three three;
    three.disk.SetRoom(room);
    const absl::Status written = Write(&three.disk, 400);
    if (!written.ok()) {
      EXPECT_TRUE(absl::IsResourceExhausted(written)) << written;
      ASSERT_TRUE(three.disk.Remove(UnderWay("d", 400, 7)).ok());
    }
    std::vector<std::string> passed_over;
    EXPECT_EQ(three.NewestClock(&passed_over), written.ok() ? 400 : 300);
  }
}

TEST(FolderLockTest, OneAtATime) {
  const std::string folder = testing::TempDir() + "/locked";
  ASSERT_TRUE(RealDisk()->MakeFolder(folder).ok());
  {
    const auto lock = FolderLock::Take(folder);
    ASSERT_TRUE(lock.ok()) << lock.status();
    EXPECT_THAT(FolderLock::Take(folder).status().message(), HasSubstr("a job that is running"));
  }
  EXPECT_TRUE(FolderLock::Take(folder).ok());
  EXPECT_FALSE(FolderLock::Take(folder + "/not-there").ok());
}

}  // namespace
}  // namespace soapstone::checkpoint
