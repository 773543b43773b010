#include "apps/checkpoint_command/checkpoint_diff.h"

#include <cmath>
#include <limits>

#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"
#include "checkpoint/part.h"
#include "checkpoint/simulated_disk.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

using testing::HasSubstr;

// The image of a checkpoint with a tensor of these values.
absl::StatusOr<checkpoint::Image> ImageOf(checkpoint::Disk* disk, int64_t clock,
                                          const std::vector<float>& values) {
  const std::string folder = checkpoint::UnderWay("d", clock, 7);
  wire::Checkpoint manifest;
  manifest.set_clock(clock);
  manifest.set_session(7);
  EXPECT_TRUE(disk->MakeFolder("d").ok() && disk->MakeFolder(folder).ok());
  const auto sums =
      checkpoint::WritePart(disk, folder + "/" + checkpoint::PartFile(0), clock,
                            {{.param = "w",
                              .box = checkpoint::WholeBox({static_cast<int64_t>(values.size())}),
                              .values = values}});
  EXPECT_TRUE(sums.ok()) << sums.status();
  checkpoint::AddPart(checkpoint::PartFile(0), *sums, &manifest);
  EXPECT_TRUE(checkpoint::Commit(disk, "d", manifest).ok());
  return checkpoint::Image::Open(disk, "d", manifest);
}

ValuesChange ChangeOf(const std::vector<float>& before, const std::vector<float>& after) {
  checkpoint::SimulatedDisk disk;
  auto a = ImageOf(&disk, 1, before);
  auto b = ImageOf(&disk, 2, after);
  if (!a.ok() || !b.ok()) return {};
  const auto changes = TensorChanges(&*a, &*b);
  EXPECT_TRUE(changes.ok() && changes->size() == 1);
  return changes->front().values;
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(CheckpointDiffTest, ByHowMuchValuesChange) {
  const ValuesChange change = ChangeOf({3, 4, 0, 0}, {3, 4, 0, 5});
  EXPECT_EQ(change.elements, 4u);
  EXPECT_EQ(change.changed, 1u);
  EXPECT_EQ(change.relative, 1);
  EXPECT_EQ(change.largest, 5);
}

// Wherever it is, and whatever comes after it.
TEST(CheckpointDiffTest, WhatIsNoNumberIsNotHiddenBehindWhatIs) {
  for (size_t at = 0; at < 3; ++at) {
    std::vector<float> after = {2, 2, 2};
    after[at] = kNan;
    const ValuesChange change = ChangeOf({1, 1, 1}, after);
    EXPECT_EQ(change.changed, 3u);
    EXPECT_TRUE(std::isnan(change.largest)) << at;
    EXPECT_TRUE(std::isnan(change.relative)) << at;
  }
}

TEST(CheckpointDiffTest, WhatWasNoNumberBeforeAndHasTheSameBitsIsTheSame) {
  EXPECT_EQ(ChangeOf({kNan, 1}, {kNan, 1}).changed, 0u);
}

TEST(CheckpointDiffTest, WhatIsNoNumberIsSaidAsThat) {
  const TensorChange change = {.name = "w", .values = ChangeOf({1, 1}, {1, kNan})};
  const DiffText said = TextOf({.clock = 1}, {.clock = 2}, {change}, {});
  EXPECT_THAT(said.text, HasSubstr("w: 1 of 2 elements changed, by nan in all, by nan at most"));
  EXPECT_THAT(said.json.dump(), HasSubstr("\"largest\":null"));
}

}  // namespace
}  // namespace soapstone::apps
