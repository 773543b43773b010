#include "worker/sparse_executor.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "gtest/gtest.h"
#include "wire/key_shard.h"

namespace soapstone::worker {
namespace {

constexpr uint32_t kShards = 3;
constexpr uint32_t kLeaves = 4;

class SparseExecutorTest : public testing::Test {
 protected:
  SparseExecutorTest() {
    const std::string path =
        testing::TempDir() + "/sparse_executor_triples-" + std::to_string(getpid());
    std::ofstream file(path);
    for (int i = 0; i < 40; ++i) file << i % 7 << " " << i % 5 << " " << i % 4 << "\n";
    file.close();
    model_ = *models::MakeSparseModel("matrix_factorisation:dim=2",
                                      {.format = "triples", .path = path, .seed = 1}, 0);
    layout_ = std::make_shared<const wire::Layout>(
        *wire::Layout::Build({}, {.shard_count = kShards, .tables = model_->tables()}));
    executor_ = std::make_unique<SparseExecutor>(SparseExecutorOptions{
        .model = model_, .layout = layout_, .batch = 16, .now = [] { return Nanos{0}; }});
  }

  DeviceEvent Run(DeviceCommand command) {
    command.leaf_count = kLeaves;
    command.wants_event = true;
    std::vector<DeviceEvent> events;
    executor_->Run(command, &events);
    EXPECT_EQ(events.size(), 1u);
    return events.at(0);
  }
  // All of a batch's rows, each with value 0.5.
  Buffers Load() {
    const Buffers keys = Run({.what = {.op = Op::kKeys, .part = {0, kLeaves}},
                              .first_part = true,
                              .last_part = true})
                             .frames;
    DeviceCommand load = {.what = {.op = Op::kLoad}};
    load.frames.resize(kShards);
    for (size_t i = 0; i < keys.size(); ++i) {
      const std::vector<float> rows(keys[i].size() / sizeof(uint64_t) * 3, 0.5f);
      load.frames[i / 2].push_back(Buffer::CopyOf<float>(rows));
    }
    Run(load);
    return keys;
  }
  // Parts are single leaves, summed along the tree.
  void Compute(LeafRange node) {
    for (uint32_t leaf = node.begin; leaf < node.end; ++leaf) {
      for (const Op op : {Op::kForward, Op::kBackward}) {
        Run({.what = {.op = op, .node = node, .part = {leaf, leaf + 1}},
             .tree_sum = true,
             .first_part = leaf == node.begin,
             .last_part = leaf + 1 == node.end});
      }
    }
  }
  SparseRows Collect(uint32_t shard, uint32_t table) {
    const DeviceEvent event =
        Run({.what = {.op = Op::kCollect,
                      .shard = ShardId{shard},
                      .bucket = layout_->BucketOfTable(ShardId{shard}, table)}});
    std::vector<uint64_t> scratch;
    const auto keys = KeysOf(event.frames.at(0), &scratch);
    const auto rows = event.frames.at(1).floats();
    return {{keys.begin(), keys.end()}, {rows.begin(), rows.end()}};
  }

  std::shared_ptr<const models::SparseModel> model_;
  std::shared_ptr<const wire::Layout> layout_;
  std::unique_ptr<SparseExecutor> executor_;
};

TEST_F(SparseExecutorTest, KeysAreThoseOfTheSamplesEachOnItsShard) {
  const Buffers frames = Load();
  ASSERT_EQ(frames.size(), kShards * 2);
  std::vector<uint64_t> rows;
  for (uint32_t k = 0; k < kShards; ++k) {
    std::vector<uint64_t> scratch;
    const auto keys = KeysOf(frames[k * 2], &scratch);
    EXPECT_TRUE(AscendStrictly(keys));
    for (const uint64_t key : keys) {
      EXPECT_EQ(wire::ShardOfKey(0, key, kShards), ShardId{k});
      rows.push_back(key);
    }
  }
  EXPECT_GE(rows.size(), 4u);
  EXPECT_LE(rows.size(), 7u);
}

// What two workers push adds up to what one does, in bits.
TEST_F(SparseExecutorTest, SumsAlongTheTree) {
  Load();
  for (uint32_t k = 0; k < kShards; ++k) {
    for (uint32_t t = 0; t < 2; ++t) {
      Compute({0, kLeaves});
      const SparseRows whole = Collect(k, t);
      Compute({0, 2});
      const SparseRows first = Collect(k, t);
      Compute({2, 4});
      EXPECT_EQ(SumOf(first, Collect(k, t), 3), whole);
      for (const uint64_t key : whole.keys) {
        EXPECT_EQ(wire::ShardOfKey(t, key, kShards), ShardId{k});
      }
    }
  }
}

TEST_F(SparseExecutorTest, EvaluatesTheHeldOutData) {
  const Buffers keys =
      Run({.what = {.op = Op::kKeys, .index = 1}, .first_part = true, .last_part = true}).frames;
  DeviceCommand load = {.what = {.op = Op::kLoad}};
  load.frames.resize(kShards);
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::vector<float> rows(keys[i].size() / sizeof(uint64_t) * 3);
    load.frames[i / 2].push_back(Buffer::CopyOf<float>(rows));
  }
  Run(load);
  const DeviceEvent event = Run({.what = {.op = Op::kEvaluate}});
  EXPECT_EQ(event.samples, model_->data().test.size());
  // All rows zero: the mean is predicted.
  double loss = 0;
  double mean = 0;
  for (const float label : model_->data().train.labels) mean += label;
  mean /= static_cast<double>(model_->data().train.size());
  for (const float label : model_->data().test.labels)
    loss += 0.5 * (label - mean) * (label - mean);
  EXPECT_NEAR(event.loss_sum, loss, 1e-4);
}

}  // namespace
}  // namespace soapstone::worker
