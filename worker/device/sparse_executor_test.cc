#include "worker/device/sparse_executor.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "compute/init.h"
#include "gtest/gtest.h"
#include "wire/key_shard.h"

namespace soapstone::worker {
namespace {

constexpr uint32_t kShards = 3;
constexpr uint32_t kSparseMicroBatches = 4;

// A command that is answered.
DeviceEvent RunOn(SparseExecutor* executor, DeviceCommand command) {
  command.micro_batch_count = kSparseMicroBatches;
  command.wants_event = true;
  std::vector<DeviceEvent> events;
  executor->Run(command, &events);
  EXPECT_EQ(events.size(), 1u);
  return events.at(0);
}

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
    executor_ = *SparseExecutor::Create(
        {.model = model_, .layout = layout_, .batch = 16, .now = [] { return Nanos{0}; }});
  }

  DeviceEvent Run(DeviceCommand command) { return RunOn(executor_.get(), std::move(command)); }
  // All of a batch's rows, each with value 0.5.
  Buffers Load() {
    Buffers keys =
        Run({.what = FindKeys{.part = {0, kSparseMicroBatches}, .first = true, .last = true}})
            .frames;
    LoadCommand load;
    load.frames.resize(kShards);
    for (size_t i = 0; i < keys.size(); ++i) {
      const std::vector<float> rows(keys[i].size() / sizeof(uint64_t) * 3, 0.5f);
      load.frames[i / 2].push_back(Buffer::CopyOf<float>(rows));
    }
    Run({.what = std::move(load)});
    return keys;
  }
  // Parts are single micro-batches, summed along the tree.
  void Compute(MicroBatchRange node) {
    for (uint32_t micro_batch = node.begin; micro_batch < node.end; ++micro_batch) {
      const MicroBatchRange part = {micro_batch, micro_batch + 1};
      const bool begins = micro_batch == node.begin;
      Run({.what = RunForward{.node = node, .part = part, .begins_node = begins},
           .tree_sum = true});
      Run({.what = RunBackward{.node = node, .part = part, .begins_node = begins},
           .tree_sum = true});
    }
  }
  SparseRows Collect(uint32_t shard, uint32_t table) {
    const DeviceEvent event =
        Run({.what = CollectBucket{.shard = ShardId{shard},
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
      Compute({0, kSparseMicroBatches});
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
      Run({.what = FindKeys{.held_out = true, .first = true, .last = true}}).frames;
  LoadCommand load;
  load.frames.resize(kShards);
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::vector<float> rows(keys[i].size() / sizeof(uint64_t) * 3);
    load.frames[i / 2].push_back(Buffer::CopyOf<float>(rows));
  }
  Run({.what = std::move(load)});
  const DeviceEvent event = Run({.what = EvaluateModel{}});
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

// A model with tensors beside its tables.
class GraphOnRowsTest : public testing::Test {
 protected:
  GraphOnRowsTest() {
    const std::string path =
        testing::TempDir() + "/sparse_executor_criteo-" + std::to_string(getpid());
    std::ofstream file(path);
    for (int i = 0; i < 40; ++i) {
      file << i % 2 << "\t" << i % 9 << "\t" << i % 7 << "\t" << i % 5 << "," << i % 3 << "\n";
    }
    file.close();
    model_ = *models::MakeSparseModel("dlrm:dense=1,categorical=2,dim=3,bottom=4,top=5",
                                      {.format = "criteo", .path = path, .seed = 1}, 0);
    layout_ = std::make_shared<const wire::Layout>(*wire::Layout::Build(
        model_->graph()->params(), {.shard_count = kShards, .tables = model_->tables()}));
    executor_ = *SparseExecutor::Create(
        {.model = model_, .layout = layout_, .batch = 16, .now = [] { return Nanos{0}; }});
  }

  DeviceEvent Run(DeviceCommand command) { return RunOn(executor_.get(), std::move(command)); }
  void Load() {
    const Buffers keys =
        Run({.what = FindKeys{.part = {0, kSparseMicroBatches}, .first = true, .last = true}})
            .frames;
    LoadCommand load;
    load.frames.resize(kShards);
    for (uint32_t k = 0; k < kShards; ++k) {
      for (const wire::Slice& slice : layout_->slices(ShardId{k})) {
        std::vector<float> values(slice.elements());
        compute::InitSlice(layout_->params()[Index(slice.param)], 1, slice.param, slice.begin,
                           absl::MakeSpan(values));
        load.frames[k].push_back(Buffer::CopyOf<float>(values));
      }
      for (size_t t = 0; t < 2; ++t) {
        std::vector<float> rows(keys[k * 2 + t].size() / sizeof(uint64_t) * 3);
        for (size_t e = 0; e < rows.size(); ++e) rows[e] = 0.1f * static_cast<float>(e % 7);
        load.frames[k].push_back(Buffer::CopyOf<float>(rows));
      }
    }
    Run({.what = std::move(load)});
  }
  // Of all operators, on single micro-batches. Returns the samples and the loss that were reported.
  std::pair<uint64_t, double> Compute(MicroBatchRange node) {
    std::pair<uint64_t, double> reported = {0, 0};
    const auto ops = static_cast<uint32_t>(model_->graph()->ops().size());
    for (uint32_t micro_batch = node.begin; micro_batch < node.end; ++micro_batch) {
      const MicroBatchRange part = {micro_batch, micro_batch + 1};
      const bool begins = micro_batch == node.begin;
      const auto run = [&](DeviceWork work) {
        const DeviceEvent event = Run({.what = std::move(work), .tree_sum = true});
        reported.first += event.trained_samples;
        reported.second += event.loss_sum;
      };
      for (uint32_t op = 0; op < ops; ++op) {
        run(RunForward{.op = op, .node = node, .part = part, .begins_node = begins});
      }
      for (uint32_t op = ops; op-- > 0;) {
        run(RunBackward{.op = op, .node = node, .part = part, .begins_node = begins});
      }
    }
    return reported;
  }
  // All buckets of a shard: of slices, then of tables.
  std::vector<DeviceEvent> Collect(uint32_t shard) {
    std::vector<DeviceEvent> events;
    for (uint32_t b = 0; b < layout_->bucket_count(ShardId{shard}); ++b) {
      events.push_back(
          Run({.what = CollectBucket{.shard = ShardId{shard}, .bucket = BucketId{b}}}));
    }
    return events;
  }
  static SparseRows RowsOf(const DeviceEvent& event) {
    std::vector<uint64_t> scratch;
    const auto keys = KeysOf(event.frames.at(0), &scratch);
    const auto rows = event.frames.at(1).floats();
    return {{keys.begin(), keys.end()}, {rows.begin(), rows.end()}};
  }

  std::shared_ptr<const models::SparseModel> model_;
  std::shared_ptr<const wire::Layout> layout_;
  std::unique_ptr<SparseExecutor> executor_;
};

// Slices and rows of two halves of a batch add up to those of the whole, in bits.
TEST_F(GraphOnRowsTest, SumsSlicesAndRowsAlongTheTree) {
  Load();
  size_t slices = 0;
  size_t rows = 0;
  for (uint32_t k = 0; k < kShards; ++k) {
    Compute({0, kSparseMicroBatches});
    const std::vector<DeviceEvent> whole = Collect(k);
    Compute({0, 2});
    const std::vector<DeviceEvent> first = Collect(k);
    Compute({2, 4});
    const std::vector<DeviceEvent> second = Collect(k);
    for (uint32_t b = 0; b < whole.size(); ++b) {
      EXPECT_EQ(whole[b].samples, 16u);
      EXPECT_EQ(first[b].samples, 8u);
      if (layout_->TableOf(ShardId{k}, BucketId{b}).has_value()) {
        EXPECT_EQ(SumOf(RowsOf(first[b]), RowsOf(second[b]), 3), RowsOf(whole[b]));
        rows += RowsOf(whole[b]).keys.size();
        continue;
      }
      for (size_t f = 0; f < whole[b].frames.size(); ++f) {
        const auto a = first[b].frames[f].floats(), c = second[b].frames[f].floats();
        for (size_t e = 0; e < a.size(); ++e) {
          EXPECT_EQ(a[e] + c[e], whole[b].frames[f].floats()[e]);
        }
        ++slices;
      }
    }
  }
  EXPECT_GE(slices, model_->graph()->params().size());
  EXPECT_GE(rows, 7u);
}

TEST_F(GraphOnRowsTest, ReportsSamplesAndLossOnce) {
  Load();
  const auto [samples, loss] = Compute({0, kSparseMicroBatches});
  EXPECT_EQ(samples, 16u);
  EXPECT_GT(loss, 0);
  EXPECT_NEAR(Compute({0, 1}).second + Compute({1, 4}).second, loss, 1e-4);
  for (const DeviceEvent& event : Collect(0)) EXPECT_EQ(event.loss_sum, 0);
}

TEST_F(GraphOnRowsTest, OutlineHasTheTensorsOfEachOperator) {
  const std::vector<OpOutline> outline = SparseOutline(*model_);
  size_t params = 0;
  for (const OpOutline& op : outline) params += op.params.size();
  EXPECT_EQ(params, model_->graph()->params().size());
}

}  // namespace
}  // namespace soapstone::worker
