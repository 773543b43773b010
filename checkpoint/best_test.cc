#include "checkpoint/best.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"
#include "checkpoint/part.h"
#include "checkpoint/simulated_disk.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kRun = 7;

wire::BestCheckpoint BestOf(int64_t clock, double accuracy) {
  wire::BestCheckpoint best;
  best.set_clock(clock);
  best.set_session(kRun);
  best.set_accuracy(accuracy);
  best.set_loss(1 - accuracy);
  best.set_samples(359);
  best.set_evaluated(clock);
  return best;
}

// Commits one of a single part.
absl::Status WriteOne(Disk* disk, int64_t clock, uint64_t session = kRun) {
  const std::string folder = UnderWay("d", clock, session);
  const std::vector<float> values(200, static_cast<float>(clock));
  wire::Checkpoint manifest;
  manifest.set_clock(clock);
  manifest.set_session(session);
  if (absl::Status made = disk->MakeFolder(folder); !made.ok()) return made;
  const auto sums = WritePart(disk, folder + "/" + PartFile(0), clock,
                              {{.param = "w", .box = WholeBox({200}), .values = values}});
  if (!sums.ok()) return sums.status();
  AddPart(PartFile(0), *sums, &manifest);
  return Commit(disk, "d", manifest);
}

struct Folder {
  SimulatedDisk disk;
  Folder() {
    EXPECT_TRUE(disk.MakeFolder("d").ok());
    for (const int64_t clock : {100, 200, 300}) EXPECT_TRUE(WriteOne(&disk, clock).ok());
  }
  // 0: none.
  int64_t Best() {
    const auto best = ReadBest(&disk, "d");
    EXPECT_TRUE(best.ok()) << best.status();
    return best.ok() && best->has_value() ? (*best)->clock() : 0;
  }
};

TEST(BestTest, WhatIsWrittenIsRead) {
  Folder folder;
  EXPECT_EQ(folder.Best(), 0);
  EXPECT_TRUE(absl::IsNotFound(ReadBestManifest(&folder.disk, "d").status()));
  ASSERT_TRUE(WriteBest(&folder.disk, "d", BestOf(100, 0.9)).ok());
  ASSERT_TRUE(WriteBest(&folder.disk, "d", BestOf(200, 0.95)).ok());
  const auto best = ReadBest(&folder.disk, "d");
  ASSERT_TRUE(best.ok()) << best.status();
  EXPECT_EQ((*best)->clock(), 200);
  EXPECT_EQ((*best)->accuracy(), 0.95);
  EXPECT_EQ(ReadBestManifest(&folder.disk, "d")->clock(), 200);
  // It is among checkpoints, and is none.
  EXPECT_THAT(*ClocksIn(&folder.disk, "d"), ElementsAre(100, 200, 300));
  ASSERT_TRUE(RemoveBest(&folder.disk, "d").ok());
  EXPECT_EQ(folder.Best(), 0);
}

TEST(BestTest, EveryByteOfItCounts) {
  Folder folder;
  ASSERT_TRUE(WriteBest(&folder.disk, "d", BestOf(100, 0.9)).ok());
  std::string* text = folder.disk.Contents("d/best");
  for (size_t at = 0; at < text->size(); ++at) {
    (*text)[at] ^= 4;
    EXPECT_TRUE(absl::IsDataLoss(ReadBest(&folder.disk, "d").status())) << at;
    (*text)[at] ^= 4;
  }
  EXPECT_EQ(folder.Best(), 100);
  *text = Sealed("format: 3\nclock: 1\n");
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadBest(&folder.disk, "d").status()));
}

TEST(BestTest, WhatItNamesMustBeThereAndOfTheSameRun) {
  Folder folder;
  ASSERT_TRUE(WriteBest(&folder.disk, "d", BestOf(200, 0.9)).ok());
  ASSERT_TRUE(WriteOne(&folder.disk, 200, kRun + 1).ok());
  EXPECT_THAT(ReadBestManifest(&folder.disk, "d").status().message(), HasSubstr("of another run"));
  ASSERT_TRUE(folder.disk.Remove("d/000000200").ok());
  EXPECT_THAT(ReadBestManifest(&folder.disk, "d").status().message(),
              HasSubstr("the best of d, checkpoint 200"));
}

TEST(BestTest, PruningLeavesItOrSaysNoMoreThatItIsTheBest) {
  Folder folder;
  ASSERT_TRUE(WriteBest(&folder.disk, "d", BestOf(100, 0.9)).ok());
  ASSERT_TRUE(Prune(&folder.disk, "d", {100, 300}).ok());
  EXPECT_EQ(folder.Best(), 100);
  EXPECT_THAT(*ClocksIn(&folder.disk, "d"), ElementsAre(100, 300));
  ASSERT_TRUE(Prune(&folder.disk, "d", {300}).ok());
  EXPECT_EQ(folder.Best(), 0);
}

TEST(BestTest, ByAccuracyOrByLossAndNeverByWhatIsNoNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(IsBetter(BestOf(2, 0.91), BestOf(1, 0.9)));
  EXPECT_FALSE(IsBetter(BestOf(2, 0.9), BestOf(1, 0.9)));
  EXPECT_FALSE(IsBetter(BestOf(2, nan), BestOf(1, 0.9)));
  EXPECT_TRUE(IsBetter(BestOf(2, 0.1), BestOf(1, nan)));
  EXPECT_FALSE(IsBetter(BestOf(2, nan), BestOf(1, nan)));
  wire::BestCheckpoint loss = BestOf(1, 0.9);
  loss.set_by_loss(true);
  wire::BestCheckpoint less = loss;
  less.set_loss(0.05);
  less.set_accuracy(0.1);
  EXPECT_TRUE(IsBetter(less, loss));
  EXPECT_FALSE(IsBetter(loss, less));
  EXPECT_EQ(FigureOf(loss), "loss 0.1000");
  EXPECT_EQ(FigureOf(BestOf(1, 0.98123)), "accuracy 0.9812");
}

TEST(BestTest, OnAFullDiskTheOneBeforeStays) {
  for (uint64_t room = 0; room < 200; room += 8) {
    Folder folder;
    ASSERT_TRUE(WriteBest(&folder.disk, "d", BestOf(100, 0.9)).ok());
    folder.disk.SetRoom(room);
    const absl::Status written = WriteBest(&folder.disk, "d", BestOf(200, 0.95));
    EXPECT_EQ(folder.Best(), written.ok() ? 200 : 100) << room;
    EXPECT_TRUE(written.ok() || absl::IsResourceExhausted(written)) << written;
    for (const std::string& path : folder.disk.Paths()) EXPECT_EQ(path.find(".tmp"), path.npos);
  }
}

}  // namespace
}  // namespace soapstone::checkpoint
