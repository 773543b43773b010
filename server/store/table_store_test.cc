#include "server/store/table_store.h"

#include <map>

#include "base/leaf_tree.h"
#include "base/random.h"
#include "compute/optimizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/model_gatherer.h"
#include "server/store/store.h"
#include "wire/key_shard.h"

namespace soapstone::server {
namespace {

using testing::HasSubstr;

constexpr uint32_t kDim = 3;
constexpr uint32_t kMicroBatches = 8;

std::shared_ptr<const wire::Layout> TwoTables(uint32_t shards) {
  return std::make_shared<const wire::Layout>(*wire::Layout::Build(
      {}, {.shard_count = shards,
           .tables = {{.name = "a", .dim = kDim, .init = InitKind::kNormal, .scale = 0.1},
                      {.name = "b", .dim = 1}}}));
}

TensorStoreOptions TableOptionsOf(std::shared_ptr<const wire::Layout> layout, uint32_t shard) {
  return {.layout = std::move(layout),
          .shard = ShardId{shard},
          .optimizer = *compute::ParseOptimizer("adagrad:lr=0.1"),
          .schedule = *compute::ParseSchedule("constant"),
          .total_clocks = 100,
          .seed = 7,
          .fixed_tree = true};
}

Contribution PartOf(MicroBatchRange micro_batches, const SparseRows& rows) {
  return {.micro_batches = micro_batches,
          .samples = micro_batches.size(),
          .batch_samples = kMicroBatches,
          .payload = {Buffer::CopyOf<uint64_t>(rows.keys), Buffer::CopyOf<float>(rows.rows)}};
}

// Some twenty keys of forty, of one shard.
SparseRows MicroBatchRows(uint32_t micro_batch) {
  const CounterRandom random(3, RandomUse::kTest, micro_batch);
  SparseRows rows;
  for (uint64_t key = 0; key < 40; ++key) {
    if (random.Uniform(key) < 0.5) continue;
    rows.keys.push_back(key);
    for (uint32_t e = 0; e < kDim; ++e) {
      rows.rows.push_back(static_cast<float>(random.Normal(100 + key * kDim + e)));
    }
  }
  return rows;
}

// As a worker sums what it owns: by the nodes of the tree.
SparseRows SumOfNode(MicroBatchRange node) {
  if (node.size() == 1) return MicroBatchRows(node.begin);
  const uint32_t mid = LeafSplit(node.begin, node.end);
  return SumOf(SumOfNode({node.begin, mid}), SumOfNode({mid, node.end}), kDim);
}

std::vector<float> RowsAfter(const std::vector<MicroBatchRange>& nodes) {
  TableStore store(TableOptionsOf(TwoTables(1), 0));
  for (Clock clock = 0; clock < 3; ++clock) {
    std::vector<Contribution> parts;
    for (const MicroBatchRange node : nodes) parts.push_back(PartOf(node, SumOfNode(node)));
    store.Apply(0, clock, parts, kMicroBatches);
  }
  const Buffers all = store.ReadAll();
  EXPECT_EQ(all.size(), 4u);
  const auto rows = all[1].floats();
  return {rows.begin(), rows.end()};
}

TEST(TableStoreTest, TheTreeGivesTheSameBitsHoweverMicroBatchesAreDealt) {
  const std::vector<float> whole = RowsAfter({{0, kMicroBatches}});
  EXPECT_FALSE(whole.empty());
  std::vector<MicroBatchRange> single;
  for (uint32_t micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch)
    single.push_back({micro_batch, micro_batch + 1});
  EXPECT_EQ(RowsAfter(single), whole);
  EXPECT_EQ(RowsAfter({{0, 4}, {4, 5}, {5, 6}, {6, 8}}), whole);
}

TEST(TableStoreTest, WeightsContributions) {
  TensorStoreOptions options = TableOptionsOf(TwoTables(1), 0);
  options.optimizer = *compute::ParseOptimizer("sgd:lr=1");
  options.fixed_tree = false;
  TableStore store(options);
  Contribution first = PartOf({0, 1}, {{5}, {8}});
  Contribution second = PartOf({1, 2}, {{5, 6}, {16, 24}});
  first.weight = 0.5f;
  store.Apply(1, 0, {first, second}, kMicroBatches);
  const std::vector<uint64_t> keys = {5, 6, 7};
  const Buffers read = store.Read({Buffer(), Buffer::CopyOf<uint64_t>(keys)});
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].size(), 0u);
  // -(0.5 * 8 + 16) / 8, -24 / 8, and a key that nobody pushed.
  EXPECT_EQ(std::vector<float>(read[1].floats().begin(), read[1].floats().end()),
            (std::vector<float>{-2.5f, -3, 0}));
}

TEST(TableStoreTest, ReadsNothingWhereNoKeyIsAsked) {
  TableStore store(TableOptionsOf(TwoTables(1), 0));
  for (const Buffer& frame : store.Read({})) EXPECT_EQ(frame.size(), 0u);
}

TEST(TableStoreTest, SaysWhatIsWrongWithFramesFromOutside) {
  const auto layout = TwoTables(4);
  std::vector<uint64_t> here;
  uint64_t elsewhere = 0;
  for (uint64_t key = 0; here.size() < 3; ++key) {
    if (wire::ShardOfKey(0, key, 4) == ShardId{2}) {
      here.push_back(key);
    } else {
      elsewhere = key;
    }
  }
  const TableStore store(TableOptionsOf(layout, 2));
  const auto keys = [](const std::vector<uint64_t>& of) { return Buffer::CopyOf<uint64_t>(of); };
  const Buffer rows = Buffer::CopyOf<float>(std::vector<float>(3 * kDim));
  EXPECT_EQ(store.WhyNotKeys({}), "");
  EXPECT_EQ(store.WhyNotKeys({keys(here), Buffer()}), "");
  EXPECT_EQ(store.WhyNotRows(0, {keys(here), rows}), "");
  EXPECT_EQ(store.WhyNotRows(0, {Buffer(), Buffer()}), "");
  EXPECT_THAT(store.WhyNotKeys({keys(here)}), HasSubstr("1 frames of keys for 2 tables"));
  EXPECT_THAT(store.WhyNotKeys({keys({elsewhere}), Buffer()}), HasSubstr("another shard's"));
  EXPECT_THAT(store.WhyNotKeys({keys({here[1], here[0]}), Buffer()}), HasSubstr("do not ascend"));
  EXPECT_THAT(store.WhyNotKeys({keys({here[0], here[0]}), Buffer()}), HasSubstr("do not ascend"));
  EXPECT_THAT(store.WhyNotKeys({keys(here).Slice(0, 12), Buffer()}), HasSubstr("12 bytes"));
  EXPECT_THAT(store.WhyNotRows(0, {keys(here)}), HasSubstr("1 payload frames"));
  EXPECT_THAT(store.WhyNotRows(0, {keys(here), rows.Slice(0, 8)}), HasSubstr("8 bytes of values"));
}

// What shards hand over is put together by key.
TEST(TableStoreTest, TheModelHasTheRowsOfAllShards) {
  const auto layout = TwoTables(3);
  std::map<uint64_t, std::vector<float>> pushed;
  std::vector<Store> stores;
  for (uint32_t k = 0; k < 3; ++k) {
    TensorStoreOptions options = TableOptionsOf(layout, k);
    options.optimizer = *compute::ParseOptimizer("sgd:lr=1");
    stores.emplace_back(options);
    SparseRows rows;
    for (uint64_t key = 0; key < 100; key += 1 + key % 3) {
      if (wire::ShardOfKey(1, key, 3) != ShardId{k}) continue;
      rows.keys.push_back(key);
      rows.rows.push_back(static_cast<float>(key));
      pushed[key] = {-static_cast<float>(key) / kMicroBatches};
    }
    stores[k].Apply(layout->BucketOfTable(ShardId{k}, 1), 0, {PartOf({0, 1}, rows)}, kMicroBatches,
                    1);
  }
  ModelGatherer gatherer(layout);
  wire::Outbox asked, none;
  gatherer.Start(&asked);
  ASSERT_EQ(asked.messages.size(), 6u);
  wire::Message torn;
  torn.from = wire::Address::Of(ShardId{0});
  torn.body = wire::Slices{.bucket = layout->BucketOfTable(ShardId{0}, 0)};
  torn.payload = {Buffer::CopyOf("12345678"), Buffer()};
  EXPECT_FALSE(gatherer.OnSlices(torn, &none).ok());
  for (const wire::Message& request : asked.messages) {
    EXPECT_FALSE(gatherer.has_tables());
    wire::Message slices;
    slices.from = request.to;
    const BucketId bucket = wire::As<wire::Save>(request).bucket;
    slices.body = wire::Slices{.bucket = bucket};
    slices.payload = stores[request.to.index].ReadBucket(bucket);
    const absl::Status taken = gatherer.OnSlices(slices, &none);
    ASSERT_TRUE(taken.ok()) << taken;
  }
  ASSERT_TRUE(gatherer.all_taken());
  const std::vector<SparseRows> tables = PutTogether(*layout, gatherer.TakeTables());
  EXPECT_TRUE(tables[0].keys.empty());
  const SparseRows& table = tables[1];
  ASSERT_EQ(table.keys.size(), pushed.size());
  for (size_t i = 0; i < table.keys.size(); ++i) {
    EXPECT_EQ(pushed.at(table.keys[i]), std::vector<float>{table.rows[i]});
  }
}

}  // namespace
}  // namespace soapstone::server
