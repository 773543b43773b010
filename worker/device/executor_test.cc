// Executor on data that have to be decoded and are augmented: what a thread makes ahead changes no
// bit of a gradient.
#include "worker/device/executor.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "models/data/data_fixture.h"
#include "models/runtime/confusion.h"
#include "models/zoo/zoo.h"

namespace soapstone::worker {
namespace {

constexpr uint32_t kExecutorMicroBatches = 4;
constexpr uint64_t kBatch = 8;
constexpr Clock kClocks = 9;  // three epochs of 18 samples: the last batch of each is shorter

class ExecutorOnPngs : public models::DataFiles {
 protected:
  void SetUp() override {
    DataFiles::SetUp();
    for (uint32_t i = 0; i < 18; ++i) {
      const std::string noise = models::NoiseBytes(25, i + 1);
      WritePng("train/c" + std::to_string(i % 3) + "/" + std::to_string(i) + ".png",
               {.channels = 1, .height = 5, .width = 5}, {noise.begin(), noise.end()});
    }
    data_ = std::make_shared<const models::TrainTest>(
        *models::LoadData({.format = "images",
                           .path = PathOf("train"),
                           .test_path = PathOf("train"),
                           .augment = "crop:pad=1+flip"}));
    graph_ = *models::BuildModel("softmax", data_->train.shape, 3);
    layout_ = std::make_shared<const wire::Layout>(*wire::Layout::Build(graph_->params(), {}));
  }

  std::unique_ptr<Executor> Make(bool prefetch, bool skip = false, Clock spoilt = kNoClock) {
    return *Executor::Create({.graph = *graph_,
                              .data = data_,
                              .layout = layout_,
                              .seed = 2,
                              .batch = kBatch,
                              .total_clocks = kClocks,
                              .now = [] { return Nanos{0}; },
                              .prefetch = prefetch,
                              .skip_not_finite = skip,
                              .spoils = [spoilt](Clock clock) { return clock == spoilt; }});
  }

  // The sum along the tree of micro-batches [begin, 4), computed one by one.
  DeviceEvent Sum(Executor* executor, uint32_t begin, Clock clock) {
    const auto ops = static_cast<uint32_t>(graph_->ops().size());
    std::vector<DeviceEvent> events;
    const MicroBatchRange node = {begin, 4};
    for (uint32_t micro_batch = begin; micro_batch < 4; ++micro_batch) {
      for (uint32_t i = 0; i < 2 * ops; ++i) {
        const RunForward pass = {.op = i,
                                 .node = node,
                                 .part = {micro_batch, micro_batch + 1},
                                 .begins_node = micro_batch == begin};
        DeviceWork work = pass;
        if (i >= ops) work = Back(pass, 2 * ops - 1 - i);
        executor->Run({.what = work,
                       .clock = clock,
                       .micro_batch_count = kExecutorMicroBatches,
                       .tree_sum = true},
                      &events);
      }
    }
    executor->Run({.what = CollectBucket{}, .wants_event = true, .clock = clock}, &events);
    return events.at(0);
  }

  // The backward pass of operator `op` on the part of `pass`.
  static RunBackward Back(const RunForward& pass, uint32_t op) {
    return {.op = op, .node = pass.node, .part = pass.part, .begins_node = pass.begins_node};
  }
  static void RunWork(Executor* executor, DeviceWork work, Clock clock) {
    std::vector<DeviceEvent> events;
    executor->Run(
        {.what = std::move(work), .clock = clock, .micro_batch_count = kExecutorMicroBatches},
        &events);
  }

  // The gradient of each part of each clock, in one row.
  std::vector<float> Gradients(Executor* executor, Clock begin) {
    std::vector<float> all;
    const auto ops = static_cast<uint32_t>(graph_->ops().size());
    for (Clock clock = begin; clock < kClocks; ++clock) {
      // From clock 5 on it has other micro-batches, as after re-balancing.
      const uint32_t first = clock < 5 ? 1 : 0;
      for (const MicroBatchRange part :
           {MicroBatchRange{first, first + 1}, MicroBatchRange{first + 1, 4}}) {
        RunForward pass = {.node = part, .part = part, .begins_node = true};
        for (; pass.op < ops; ++pass.op) RunWork(executor, pass, clock);
        for (uint32_t op = ops; op-- > 0;) RunWork(executor, Back(pass, op), clock);
        std::vector<DeviceEvent> events;
        executor->Run({.what = CollectBucket{}, .wants_event = true}, &events);
        for (const Buffer& slice : events.at(0).frames) {
          all.insert(all.end(), slice.floats().begin(), slice.floats().end());
        }
      }
    }
    return all;
  }

  std::shared_ptr<const models::TrainTest> data_;
  std::optional<models::Graph> graph_;
  std::shared_ptr<const wire::Layout> layout_;
};

TEST_F(ExecutorOnPngs, PrefetchingChangesNoBit) {
  const std::vector<float> direct = Gradients(Make(false).get(), 0);
  ASSERT_EQ(direct.size(), kClocks * 2 * (25 * 3 + 3));
  EXPECT_NE(direct, std::vector<float>(direct.size()));
  EXPECT_EQ(Gradients(Make(true).get(), 0), direct);
}

// Else a worker holds two gradients where one would do, and so does the server that maps them.
TEST_F(ExecutorOnPngs, AGradientThatWasLetGoOfLendsItsMemoryToTheNext) {
  const auto executor = Make(false);
  DeviceEvent kept = Sum(executor.get(), 0, 0);
  const void* first = kept.frames.at(0).data();
  kept = {};
  kept = Sum(executor.get(), 0, 1);
  EXPECT_EQ(kept.frames.at(0).data(), first);
  const std::vector<float> values(kept.frames[0].floats().begin(), kept.frames[0].floats().end());
  const DeviceEvent next = Sum(executor.get(), 0, 2);
  EXPECT_NE(next.frames.at(0).data(), first) << "while it is kept";
  EXPECT_TRUE(std::equal(values.begin(), values.end(), kept.frames[0].floats().begin()));
}

TEST_F(ExecutorOnPngs, AnEvaluationSaysWhatWasTakenForWhich) {
  const auto executor = Make(false);
  LoadCommand load = {.frames = {{}}};
  for (const wire::Slice& slice : layout_->slices(ShardId{0})) {
    std::vector<float> values(slice.elements());
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i % 7) - 3;
    load.frames[0].push_back(Buffer::CopyOf<float>(values));
  }
  std::vector<DeviceEvent> none;
  executor->Run({.what = std::move(load)}, &none);
  const DeviceEvent event = executor->Evaluate();
  const models::Confusion confusion = *models::ConfusionOf(event.frames);
  ASSERT_EQ(confusion.size(), 3u);
  uint64_t right = 0;
  for (size_t k = 0; k < 3; ++k) {
    right += confusion[k][k];
    EXPECT_EQ(confusion[k][0] + confusion[k][1] + confusion[k][2], 6u);
  }
  EXPECT_EQ(right, event.correct);
  EXPECT_LT(confusion[0][0] + confusion[1][0] + confusion[2][0], 18u);
}

TEST_F(ExecutorOnPngs, ASuccessorGoesOnWithTheSameBits) {
  const std::vector<float> whole = Gradients(Make(true).get(), 0);
  const std::vector<float> rest = Gradients(Make(true).get(), 4);
  EXPECT_EQ(rest,
            std::vector<float>(whole.end() - static_cast<ptrdiff_t>(rest.size()), whole.end()));
}

TEST_F(ExecutorOnPngs, AGradientThatIsNotFiniteIsToldOf) {
  const std::unique_ptr<Executor> executor = Make(false, /*skip=*/false, /*spoilt=*/1);
  EXPECT_EQ(Sum(executor.get(), 2, 0).not_finite.updates, 0u);
  const DeviceEvent told = Sum(executor.get(), 2, 1);
  EXPECT_EQ(told.not_finite.updates, 1u);
  EXPECT_FALSE(told.not_finite.parameters);
  EXPECT_EQ(Sum(executor.get(), 2, 2).not_finite.updates, 0u);
}

// Of micro-batches 2 and 3 the first is spoilt: what is left is micro-batch 3's, to the bit, with
// its samples and its loss; and the next step is as if nothing had been.
TEST_F(ExecutorOnPngs, APartThatIsNotFiniteIsLeftOutWithAllThatBelongsToIt) {
  const std::unique_ptr<Executor> plain = Make(false);
  const std::unique_ptr<Executor> skips = Make(false, /*skip=*/true, /*spoilt=*/1);
  EXPECT_EQ(Sum(skips.get(), 2, 0).frames, Sum(plain.get(), 2, 0).frames);
  const DeviceEvent left = Sum(skips.get(), 2, 1);
  const DeviceEvent alone = Sum(plain.get(), 3, 1);
  EXPECT_EQ(left.frames, alone.frames);
  EXPECT_EQ(left.samples, alone.samples);
  EXPECT_EQ(left.trained_samples, alone.trained_samples);
  EXPECT_EQ(left.loss_sum, alone.loss_sum);
  EXPECT_EQ(left.not_finite, (DeviceEvent::NotFinite{.updates = 1, .tensor = 0}));
  const DeviceEvent after = Sum(skips.get(), 2, 2);
  const DeviceEvent whole = Sum(plain.get(), 2, 2);
  EXPECT_EQ(after.frames, whole.frames);
  EXPECT_EQ(after.samples, whole.samples);
  EXPECT_EQ(after.not_finite.updates, 0u);
}

}  // namespace
}  // namespace soapstone::worker
