#include "server/store/store.h"

#include "gtest/gtest.h"

namespace soapstone::server {
namespace {

std::shared_ptr<const wire::Layout> TwoParameters() {
  return std::make_shared<const wire::Layout>(*wire::Layout::Build(
      {{.name = "a", .shape = {100, 50}, .init = InitKind::kUniform, .scale = 0.1},
       {.name = "b", .shape = {7}}},
      {.shard_count = 1}));
}

TensorStore MakeTensors(std::shared_ptr<const wire::Layout> layout) {
  return TensorStore({.layout = std::move(layout),
                      .optimizer = *compute::ParseOptimizer("sgd:lr=1"),
                      .schedule = *compute::ParseSchedule("constant"),
                      .total_clocks = 1,
                      .seed = 3,
                      .fixed_tree = true});
}

Contribution Ones(const wire::Layout& layout) {
  Contribution part = {.micro_batches = {0, 1}, .samples = 1, .batch_samples = 1};
  for (const wire::Slice& slice : layout.slices(ShardId{0})) {
    const std::vector<float> ones(slice.elements(), 1.0f);
    part.payload.push_back(Buffer::CopyOf(absl::MakeConstSpan(ones)));
  }
  return part;
}

Contribution PartOf(uint32_t worker) {
  return {.worker = WorkerId{worker}, .micro_batches = {worker, worker + 1}};
}

TEST(StoreTest, MayCountBesideItsValues) {
  const auto layout = TwoParameters();
  Store store(MakeTensors(layout), CountStore(1));
  const auto before = store.Read();
  store.Apply(BucketId{0}, 0, {Ones(*layout)}, 1, 1);
  EXPECT_TRUE(store.checks_payload());
  EXPECT_EQ(store.counts()->buckets()[0], (CountStore::Count{.applied = 1, .sum = 0}));
  EXPECT_EQ(store.Read()[0].floats()[0], before[0].floats()[0] - 1.0f);
}

TEST(StoreTest, AStampTellsWhatWasAppliedInWhichOrder) {
  const auto stamp_after = [](const std::vector<std::vector<Contribution>>& updates) {
    Store store{CountStore(2)};
    for (Clock clock = 0; const std::vector<Contribution>& parts : updates) {
      store.Apply(BucketId{1}, clock++, parts, 4, 4);
    }
    EXPECT_EQ(store.stamp(BucketId{0}), Store::Stamp());
    return store.stamp(BucketId{1});
  };
  EXPECT_EQ(stamp_after({{PartOf(0)}, {PartOf(1)}}), stamp_after({{PartOf(0)}, {PartOf(1)}}));
  EXPECT_EQ(stamp_after({{PartOf(0)}, {PartOf(1)}}).updates, 2u);
  EXPECT_NE(stamp_after({{PartOf(0)}, {PartOf(1)}}), stamp_after({{PartOf(1)}, {PartOf(0)}}));
  EXPECT_NE(stamp_after({{PartOf(0), PartOf(1)}}), stamp_after({{PartOf(0)}, {PartOf(1)}}));
}

TEST(StoreTest, WhatABranchGathersIsStampedAsWhatIsApplied) {
  const auto layout = TwoParameters();
  Store branch(MakeTensors(layout), CountStore(1)), flat(MakeTensors(layout), CountStore(1));
  const Buffers before = branch.Read();
  const Buffers sums = branch.Gather(BucketId{0}, 2, {Ones(*layout)}, 1);
  flat.Apply(BucketId{0}, 2, {Ones(*layout)}, 1, 1);
  EXPECT_EQ(branch.stamp(BucketId{0}), flat.stamp(BucketId{0}));
  EXPECT_EQ(branch.counts()->buckets(), flat.counts()->buckets());
  EXPECT_EQ(sums, Ones(*layout).payload);
  EXPECT_EQ(branch.Read(), before);
  branch.Load(flat.Read());  // and its values are those that come back
  EXPECT_EQ(branch.Read(), flat.Read());
}

TEST(StoreTest, AnAnswerSaysHowManyUpdatesAreInIt) {
  Store store{CountStore(2)};
  EXPECT_EQ(store.ReadFor(WorkerId{0}, {}, false).version, 0u);
  store.Apply(BucketId{0}, 0, {PartOf(0), PartOf(1)}, 4, 4);
  store.Apply(BucketId{1}, 0, {PartOf(0)}, 4, 4);
  EXPECT_EQ(store.ReadFor(WorkerId{0}, {}, false).version, 3u);
  EXPECT_EQ(store.ReadToSave(BucketId{0}).version, 3u);
}

}  // namespace
}  // namespace soapstone::server
