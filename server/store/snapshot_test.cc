#include "server/store/snapshot.h"

#include <utility>

#include "gtest/gtest.h"

namespace soapstone::server {
namespace {

Snapshot At(Nanos at, uint64_t steps) {
  return {.at = at, .steps = steps, .slices = {Buffer::CopyOf(absl::MakeConstSpan(&at, 1))}};
}

// The times of a cut's snapshots, by shard; empty where there is no cut.
std::vector<Nanos> NextOf(CutAssembler* cuts, Nanos* at = nullptr) {
  const std::optional<Cut> cut = cuts->Next();
  std::vector<Nanos> times;
  if (!cut.has_value()) return times;
  if (at != nullptr) *at = cut->at;
  times.reserve(cut->slices.size());
  for (const Buffers& slices : cut->slices) {
    times.push_back(*reinterpret_cast<const Nanos*>(slices[0].data()));
  }
  return times;
}

using Times = std::vector<Nanos>;

TEST(CutAssemblerTest, WaitsForTheLastShardAndHasItsTime) {
  CutAssembler cuts(2);
  cuts.Add(ShardId{0}, At(10, 1));
  cuts.Add(ShardId{0}, At(20, 2));
  EXPECT_EQ(NextOf(&cuts), Times{});
  cuts.Add(ShardId{1}, At(15, 1));
  Nanos at = 0;
  EXPECT_EQ(NextOf(&cuts, &at), (Times{10, 15}));
  EXPECT_EQ(at, 15);
  EXPECT_EQ(NextOf(&cuts), Times{});
  cuts.Add(ShardId{1}, At(18, 2));
  EXPECT_EQ(NextOf(&cuts, &at), (Times{20, 18}));
  EXPECT_EQ(at, 20);
}

// A shard may pass several steps in one update.
TEST(CutAssemblerTest, TakesOfEachShardTheFirstThatIsFarEnough) {
  CutAssembler cuts(2);
  for (const auto& [at, steps] : {std::pair(10, 2), {20, 5}}) {
    cuts.Add(ShardId{0}, At(at, static_cast<uint64_t>(steps)));
  }
  for (const auto& [at, steps] : {std::pair(11, 1), {12, 3}, {21, 6}}) {
    cuts.Add(ShardId{1}, At(at, static_cast<uint64_t>(steps)));
  }
  EXPECT_EQ(NextOf(&cuts), (Times{10, 11}));  // 1
  EXPECT_EQ(NextOf(&cuts), (Times{10, 12}));  // 2
  EXPECT_EQ(NextOf(&cuts), (Times{20, 12}));  // 3
  EXPECT_EQ(NextOf(&cuts), (Times{20, 21}));  // 4 and 5 are the same
  EXPECT_EQ(NextOf(&cuts), Times{});
}

std::shared_ptr<const wire::Layout> OneBucket() {
  return std::make_shared<const wire::Layout>(
      *wire::Layout::Build({{.name = "w", .shape = {4}}}, {.shard_count = 1}));
}

TEST(SnapshotTakerTest, TakesOneEachTimeThatEnoughSamplesAreInTheStore) {
  Store store(TensorStoreOptions({.layout = OneBucket(),
                                  .shard = ShardId{0},
                                  .optimizer = *compute::ParseOptimizer("sgd:lr=1"),
                                  .schedule = *compute::ParseSchedule("constant"),
                                  .total_clocks = 10}));
  SnapshotTaker taker(10);
  const std::vector<float> gradient(4, 1.0f);
  std::vector<Snapshot> taken;
  for (Clock clock = 0; clock < 10; ++clock) {
    store.Apply(BucketId{0}, clock,
                {{.samples = 4,
                  .batch_samples = 4,
                  .payload = {Buffer::CopyOf(absl::MakeConstSpan(gradient))}}},
                1, 1);
    for (int look = 0; look < 2; ++look) {
      std::optional<Snapshot> snapshot = taker.Look(100 * (clock + 1) + look, store);
      if (snapshot.has_value()) taken.push_back(*std::move(snapshot));
    }
  }
  ASSERT_EQ(taken.size(), 4u);  // at 12, 20, 32 and 40 samples
  EXPECT_EQ(taken[0].at, 300);
  EXPECT_EQ(taken[1].at, 500);
  EXPECT_EQ(taken[3].steps, 4u);
  // The values of then, whatever was applied since: three steps of -1/4 each.
  const Snapshot last = taker.Last(store);
  EXPECT_EQ(last.at, 1000);
  EXPECT_EQ(last.slices, taken[3].slices);
  EXPECT_NEAR(taken[0].slices[0].floats()[0] - last.slices[0].floats()[0], 7 * 0.25, 1e-5);
}

TEST(CutAssemblerTest, OfNoShardsThereIsNone) {
  CutAssembler assembler(0);
  EXPECT_FALSE(assembler.Next().has_value());
}

}  // namespace
}  // namespace soapstone::server
