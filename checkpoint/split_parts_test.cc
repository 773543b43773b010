// Parts of models that random strategies split: what the shards of one layout write is read by
// those of any other, whatever its strategy cuts, and by one that cuts nothing.
#include <algorithm>
#include <string>
#include <vector>

#include "base/piece_runs.h"
#include "checkpoint/folder.h"
#include "checkpoint/image.h"
#include "checkpoint/manifest.h"
#include "checkpoint/part.h"
#include "checkpoint/simulated_disk.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "strategy/pieces.h"
#include "strategy/testing/random_strategies.h"
#include "wire/layout.h"

namespace soapstone::checkpoint {
namespace {

constexpr uint32_t kSeats = 4;
constexpr int64_t kClock = 9;

// Each element of the model has a number of its own: shards find it as they do initial values.
std::vector<float> NumbersOf(const wire::Layout& layout, const wire::Slice& slice) {
  const PieceRuns runs(layout.params()[Index(slice.param)]);
  std::vector<float> numbers;
  while (numbers.size() < slice.elements()) {
    const PieceRuns::Run run = runs.RunAt(slice.begin + numbers.size());
    const uint64_t count = std::min(run.count, slice.elements() - numbers.size());
    for (uint64_t e = 0; e < count; ++e) numbers.push_back(static_cast<float>(run.at + e));
  }
  return numbers;
}

void Write(SimulatedDisk* disk, const wire::Layout& layout, wire::Checkpoint* manifest) {
  const std::string folder = "d/" + NameOf(kClock);
  ASSERT_TRUE(disk->MakeFolder("d").ok());
  ASSERT_TRUE(disk->MakeFolder(folder).ok());
  manifest->set_clock(kClock);
  for (uint32_t k = 0; k < layout.shard_count(); ++k) {
    std::vector<std::vector<float>> values;
    for (const wire::Slice& slice : layout.slices(ShardId{k})) {
      values.push_back(NumbersOf(layout, slice));
    }
    std::vector<PartSlice> slices;
    for (size_t i = 0; i < values.size(); ++i) {
      const wire::Slice& slice = layout.slices(ShardId{k})[i];
      const ParamSpec& param = layout.params()[Index(slice.param)];
      slices.push_back({.param = WholeName(param),
                        .box = BoxOf(param),
                        .begin = slice.begin,
                        .values = values[i]});
    }
    const auto sums = WritePart(disk, folder + "/" + PartFile(k), kClock, slices);
    ASSERT_TRUE(sums.ok()) << sums.status();
    AddPart(PartFile(k), *sums, manifest);
  }
}

// Elements that are read with other numbers than they have, or cannot be read.
uint64_t WrongOf(SimulatedDisk* disk, const wire::Checkpoint& manifest,
                 const wire::Layout& layout) {
  auto image = Image::Open(disk, "d", manifest);
  EXPECT_TRUE(image.ok()) << image.status();
  uint64_t wrong = 0;
  for (uint32_t k = 0; image.ok() && k < layout.shard_count(); ++k) {
    for (const wire::Slice& slice : layout.slices(ShardId{k})) {
      const ParamSpec& param = layout.params()[Index(slice.param)];
      std::vector<float> values(slice.elements(), -1);
      const absl::Status filled =
          image->Fill(WholeName(param), BoxOf(param), slice.begin, {absl::MakeSpan(values)});
      EXPECT_TRUE(filled.ok()) << filled;
      const std::vector<float> expected = NumbersOf(layout, slice);
      for (size_t e = 0; e < values.size(); ++e) wrong += values[e] != expected[e] ? 1 : 0;
    }
  }
  return wrong;
}

wire::Layout SplitLayout(const planner::OpGraph& graph, const std::vector<ParamSpec>& params,
                         uint32_t servers, planner::Draws* draws) {
  planner::Strategy strategy = planner::RandomStrategy(graph, {.seats = kSeats}, draws);
  planner::SetSynchronization(planner::Synchronization::kServers, &strategy);
  const planner::Pieces pieces = *planner::PiecesOf(graph, strategy);
  return *wire::Layout::BuildOfPieces(
      planner::SpecsOf(pieces, params), planner::HoldersOf(pieces, graph, strategy),
      {.shard_count = servers * static_cast<uint32_t>(pieces.sets.size()), .bucket_bytes = 4096});
}

TEST(SplitPartsTest, WhatOneStrategyWritesAnyOtherReads) {
  planner::Draws draws(1);
  uint64_t boxes = 0;
  for (const std::string& name : models::ModelNames()) {
    const models::Graph model = *models::BuildModel(name + ":tiny", models::ModelInput{});
    const planner::OpGraph graph = *planner::MakeOpGraph(model, {.batch = 8});
    std::vector<wire::Layout> layouts = {
        *wire::Layout::Build(model.params(), {.shard_count = 3, .bucket_bytes = 4096})};
    for (uint32_t servers = 1; servers <= 3; ++servers) {
      layouts.push_back(SplitLayout(graph, model.params(), servers, &draws));
      for (const ParamSpec& param : layouts.back().params()) {
        boxes += BoxOf(param).is_whole() ? 0 : 1;
      }
    }
    for (const wire::Layout& written : layouts) {
      SimulatedDisk disk;
      wire::Checkpoint manifest;
      Write(&disk, written, &manifest);
      for (const wire::Layout& read : layouts) {
        EXPECT_EQ(WrongOf(&disk, manifest, read), 0u) << name;
      }
    }
  }
  EXPECT_GT(boxes, 50u);
}

}  // namespace
}  // namespace soapstone::checkpoint
