// A machine that ends at any moment: whatever steps were made, and whatever of what was not synced
// is on the disk, the newest checkpoint that was committed is found, or a newer one in whole.
#include <functional>

#include "checkpoint/best.h"
#include "checkpoint/folder.h"
#include "checkpoint/image.h"
#include "checkpoint/part.h"
#include "checkpoint/simulated_disk.h"
#include "gtest/gtest.h"

namespace soapstone::checkpoint {
namespace {

constexpr uint64_t kSession = 0xABCDEF;
constexpr uint32_t kShards = 2;
constexpr int64_t kClocks[] = {100, 200, 300};

float ValueAt(int64_t clock, uint64_t element) {
  return static_cast<float>(clock) + 0.25f * static_cast<float>(element);
}

std::vector<float> ValuesOf(int64_t clock) {
  std::vector<float> values(400);  // of two sectors and more
  for (size_t e = 0; e < values.size(); ++e) values[e] = ValueAt(clock, e);
  return values;
}

// Of 100 rows, key k of shard k mod 2.
constexpr RowForm kRows = {.dim = 2, .second = true, .steps = true};

RowBlock RowsOf(int64_t clock, uint32_t shard) {
  RowBlock rows;
  rows.Resize(50, kRows);
  for (size_t i = 0; i < rows.keys.size(); ++i) {
    rows.keys[i] = 2 * (rows.keys.size() - i) + shard;
    rows.steps[i] = static_cast<uint64_t>(clock) + i;
    for (size_t e = 0; e < 2; ++e) {
      rows.values[2 * i + e] = ValueAt(clock, 1000 + rows.keys[i] + e);
      rows.second[2 * i + e] = ValueAt(clock, 2000 + rows.keys[i] + e);
    }
  }
  return rows;
}

PartTable TableOf(int64_t clock, uint32_t shard) {
  return {.name = "t", .form = kRows, .rows = 50, .hand = {}, .next = [=](size_t, RowBlock* block) {
            *block = RowsOf(clock, shard);
            return absl::OkStatus();
          }};
}

// What a job does of three checkpoints, of which two are kept. Returns the clock of the last that
// it was told to be committed; 0: none.
using Job = std::function<int64_t(SimulatedDisk*)>;

absl::Status WriteParts(SimulatedDisk* disk, int64_t clock, uint32_t first, uint32_t end,
                        wire::Checkpoint* manifest) {
  const std::string folder = UnderWay("d", clock, kSession);
  if (absl::Status made = disk->MakeFolder(folder); !made.ok()) return made;
  const std::vector<float> values = ValuesOf(clock);
  for (uint32_t shard = first; shard < end; ++shard) {
    const uint64_t begin = shard * values.size() / kShards;
    const auto sums =
        WritePart(disk, folder + "/" + PartFile(shard), clock,
                  {{.param = "w",
                    .box = WholeBox({400}),
                    .begin = begin,
                    .values = absl::MakeConstSpan(values).subspan(begin, values.size() / kShards)}},
                  std::vector<PartTable>{TableOf(clock, shard)});
    if (!sums.ok()) return sums.status();
    AddPart(PartFile(shard), *sums, manifest);
  }
  return absl::OkStatus();
}

wire::Checkpoint ManifestOf(int64_t clock) {
  wire::Checkpoint manifest;
  manifest.set_clock(clock);
  manifest.set_session(kSession);
  return manifest;
}

int64_t AsShipped(SimulatedDisk* disk) {
  if (!disk->MakeFolder("d").ok() || !disk->SyncFolder("").ok()) return 0;
  std::vector<int64_t> committed;
  for (const int64_t clock : kClocks) {
    wire::Checkpoint manifest = ManifestOf(clock);
    if (!WriteParts(disk, clock, 0, kShards, &manifest).ok()) break;
    if (!Commit(disk, "d", manifest).ok()) break;
    committed.push_back(clock);
    const size_t drop = committed.size() > 2 ? committed.size() - 2 : 0;
    if (!Prune(disk, "d", {committed.begin() + static_cast<ptrdiff_t>(drop), committed.end()}).ok())
      break;
  }
  return committed.empty() ? 0 : committed.back();
}

// Mutant: the manifest is written when the first part is, and the last part after it.
int64_t ManifestBeforeTheLastPart(SimulatedDisk* disk) {
  if (!disk->MakeFolder("d").ok() || !disk->SyncFolder("").ok()) return 0;
  int64_t committed = 0;
  for (const int64_t clock : kClocks) {
    wire::Checkpoint whole = ManifestOf(clock);
    wire::Checkpoint manifest = whole;
    SimulatedDisk elsewhere;
    if (!elsewhere.MakeFolder("d").ok() || !WriteParts(&elsewhere, clock, 0, 2, &whole).ok()) break;
    if (!WriteParts(disk, clock, 0, 1, &manifest).ok() || !Commit(disk, "d", whole).ok()) break;
    committed = clock;
    const std::string part = "d/" + NameOf(clock) + "/" + PartFile(1);
    auto file = disk->Create(part);
    const std::string* bytes =
        elsewhere.Contents(UnderWay("d", clock, kSession) + "/" + PartFile(1));
    if (!file.ok() || !(*file)->Append(bytes->data(), bytes->size()).ok()) break;
    if (!(*file)->Sync().ok() || !disk->SyncFolder("d/" + NameOf(clock)).ok()) break;
    if (clock > 200 && !Prune(disk, "d", {200, 300}).ok()) break;
  }
  return committed;
}

// Mutant: what is older goes before the new one is there.
int64_t PrunedBeforeTheCommit(SimulatedDisk* disk) {
  if (!disk->MakeFolder("d").ok() || !disk->SyncFolder("").ok()) return 0;
  int64_t committed = 0;
  for (const int64_t clock : kClocks) {
    wire::Checkpoint manifest = ManifestOf(clock);
    if (!WriteParts(disk, clock, 0, kShards, &manifest).ok()) break;
    if (!Prune(disk, "d", {}).ok() || !Commit(disk, "d", manifest).ok()) break;
    committed = clock;
  }
  return committed;
}

// Empty: the newest that is found is `committed` or later, and is what was written.
std::string WhatIsWrong(SimulatedDisk* disk, int64_t committed) {
  std::vector<std::string> passed_over;
  const auto newest = Newest(
      disk, "d", [](const wire::Checkpoint&) { return absl::OkStatus(); }, &passed_over);
  if (!newest.ok()) return std::string(newest.status().message());
  const int64_t clock = newest->has_value() ? (*newest)->clock() : 0;
  if (clock < committed) {
    return absl::StrCat("found ", clock, ", committed ", committed, "; ",
                        passed_over.empty() ? "" : passed_over[0]);
  }
  if (clock == 0) return "";
  auto image = Image::Open(disk, "d", **newest);
  if (!image.ok()) return std::string(image.status().message());
  std::vector<float> values(400), first, second;
  int64_t steps = 0;
  const absl::Status filled =
      image->Fill("w", WholeBox({400}), 0, {absl::MakeSpan(values), &first, &second, &steps});
  if (!filled.ok()) return std::string(filled.message());
  if (values != ValuesOf(clock)) return "other values than were written";
  size_t rows = 0;
  const absl::Status read = image->ReadRows(
      "t", [](uint64_t) { return true; }, true,
      [&](size_t part, const RowBlock& block) {
        rows += block == RowsOf(clock, static_cast<uint32_t>(part)) ? block.keys.size() : 0;
        return absl::OkStatus();
      });
  if (!read.ok()) return std::string(read.message());
  return rows == 100 ? "" : "other rows than were written";
}

// The first moment, and draw, at which something is wrong; empty: there is none.
std::string FirstWrong(const Job& job, DiskMutant mutant, uint64_t draws) {
  SimulatedDisk whole(mutant);
  job(&whole);
  const uint64_t steps = whole.steps();
  for (uint64_t end = 0; end <= steps; ++end) {
    for (uint64_t draw = 0; draw < draws; ++draw) {
      SimulatedDisk disk(mutant);
      disk.EndAfter(end);
      const int64_t committed = job(&disk);
      disk.Restart(draw);
      std::string wrong = WhatIsWrong(&disk, committed);
      if (!wrong.empty()) return absl::StrCat("after ", end, " steps: ", wrong);
    }
  }
  return "";
}

TEST(CrashTest, WhateverIsLostTheNewestCommittedIsFound) {
  EXPECT_EQ(FirstWrong(AsShipped, DiskMutant::kNone, 40), "");
}

TEST(CrashTest, EachForgottenStepIsFound) {
  EXPECT_NE(FirstWrong(AsShipped, DiskMutant::kFilesNotSynced, 40), "");
  EXPECT_NE(FirstWrong(AsShipped, DiskMutant::kFoldersNotSynced, 40), "");
  EXPECT_NE(FirstWrong(ManifestBeforeTheLastPart, DiskMutant::kNone, 40), "");
  EXPECT_NE(FirstWrong(PrunedBeforeTheCommit, DiskMutant::kNone, 40), "");
}

// What a job does that keeps the best of three checkpoints: 100 is, and then 300. Returns the clock
// that it was last told the folder says; 0: none.
int64_t KeepingTheBest(SimulatedDisk* disk, bool prunes_first) {
  if (!disk->MakeFolder("d").ok() || !disk->SyncFolder("").ok()) return 0;
  int64_t said = 0;
  for (const int64_t clock : kClocks) {
    wire::Checkpoint manifest = ManifestOf(clock);
    if (!WriteParts(disk, clock, 0, kShards, &manifest).ok()) break;
    if (!Commit(disk, "d", manifest).ok() || !Prune(disk, "d", {said, clock}).ok()) break;
    wire::BestCheckpoint best;
    best.set_clock(clock == 200 ? 100 : clock);
    best.set_session(kSession);
    best.set_evaluated(clock);
    if (prunes_first && !Prune(disk, "d", {clock}).ok()) break;
    if (!WriteBest(disk, "d", best).ok()) break;
    said = best.clock();
    if (!Prune(disk, "d", {said, clock}).ok()) break;
  }
  return said;
}

// Empty: the folder says what it was told last or a later best, which is whole.
std::string WhatIsWrongWithTheBest(SimulatedDisk* disk, int64_t said) {
  const auto best = ReadBest(disk, "d");
  if (!best.ok()) return std::string(best.status().message());
  const int64_t clock = best->has_value() ? (*best)->clock() : 0;
  if (clock < said) return absl::StrCat("the best is ", clock, ", it was said to be ", said);
  if (clock == 0) return "";
  const auto manifest = ReadBestManifest(disk, "d");
  if (!manifest.ok()) return std::string(manifest.status().message());
  const std::vector<std::string> faults = FaultsOf(disk, "d", *manifest);
  return faults.empty() ? "" : faults[0];
}

std::string FirstWrongOfTheBest(DiskMutant mutant, bool prunes_first) {
  constexpr uint64_t kDraws = 40;
  SimulatedDisk whole(mutant);
  KeepingTheBest(&whole, prunes_first);
  for (uint64_t end = 0; end <= whole.steps(); ++end) {
    for (uint64_t draw = 0; draw < kDraws; ++draw) {
      SimulatedDisk disk(mutant);
      disk.EndAfter(end);
      const int64_t said = KeepingTheBest(&disk, prunes_first);
      disk.Restart(draw);
      std::string wrong = WhatIsWrongWithTheBest(&disk, said);
      if (!wrong.empty()) return absl::StrCat("after ", end, " steps: ", wrong);
    }
  }
  return "";
}

TEST(CrashTest, WhateverIsLostTheBestThatWasSaidIsFoundAndWhole) {
  EXPECT_EQ(FirstWrongOfTheBest(DiskMutant::kNone, false), "");
}

TEST(CrashTest, EachForgottenStepOfTheBestIsFound) {
  EXPECT_NE(FirstWrongOfTheBest(DiskMutant::kFilesNotSynced, false), "");
  EXPECT_NE(FirstWrongOfTheBest(DiskMutant::kFoldersNotSynced, false), "");
  EXPECT_NE(FirstWrongOfTheBest(DiskMutant::kNone, true), "");
}

// And then a run that comes after finds nothing in its way.
TEST(CrashTest, WhatWasNotFinishedGoes) {
  for (uint64_t end = 0; end < 40; ++end) {
    SimulatedDisk disk;
    disk.EndAfter(end);
    AsShipped(&disk);
    disk.Restart(end);
    ASSERT_TRUE(RemoveUnfinished(&disk, "d").ok());
    for (const std::string& path : disk.Paths()) EXPECT_EQ(path.find(".tmp"), path.npos) << path;
  }
}

}  // namespace
}  // namespace soapstone::checkpoint
