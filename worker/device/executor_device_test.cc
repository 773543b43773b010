// Executor on a device: buckets that are waited for one by one have the right bits, and leave while
// the backward pass goes on. Built twice: for a device, where it is labelled gpu, and with the
// device emulated on the host.
#include <cmath>
#include <cstdio>

#include "compute/cuda/cuda_backend.h"
#include "compute/init.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "worker/device/executor.h"

namespace soapstone::worker {
namespace {

constexpr uint32_t kDeviceMicroBatches = 4;
constexpr Clock kClocks = 4;

class CudaExecutorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (compute::CudaDeviceCount() == 0) {
      std::fprintf(stderr, "SKIPPED: no CUDA device. The executor has NOT been run on one.\n");
      GTEST_SKIP() << "no CUDA device to run it on";
    }
    device_ = *compute::MakeCudaBackend({});
    data_ = std::make_shared<const models::TrainTest>(*models::LoadData(
        {.format = "digits",
         .path = std::string(SOAPSTONE_SOURCE_DIR) + "/data/digits/digits.csv.gz"}));
    graph_ = *models::BuildModel("lenet5:tiny", data_->train.shape, 10);
    layout_ = std::make_shared<const wire::Layout>(
        *wire::Layout::Build(graph_->params(), {.shard_count = 2, .bucket_bytes = 1024}));
    outline_ = OutlineOf(*graph_);
  }

  std::unique_ptr<Executor> Make(std::shared_ptr<models::GraphRunner> replica) {
    return *Executor::Create({.graph = *graph_,
                              .data = data_,
                              .layout = layout_,
                              .seed = 2,
                              .batch = 8,
                              .total_clocks = kClocks,
                              .now = [] { return Nanos{0}; },
                              .replica = std::move(replica)});
  }
  std::shared_ptr<models::GraphRunner> MakeReplica(models::ReplicaOptions options) {
    return *models::GraphRunner::Create(*graph_, std::move(options));
  }

  // What shards would send at this clock.
  std::vector<Buffers> Values(Clock clock) {
    std::vector<Buffers> frames(2);
    std::vector<std::vector<float>> params;
    for (uint32_t p = 0; p < graph_->params().size(); ++p) {
      params.emplace_back(graph_->params()[p].elements());
      compute::InitSlice(graph_->params()[p], 5 + static_cast<uint64_t>(clock), ParamId{p}, 0,
                         absl::MakeSpan(params.back()));
    }
    for (uint32_t k = 0; k < 2; ++k) {
      for (const wire::Slice& slice : layout_->slices(ShardId{k})) {
        frames[k].push_back(Buffer::CopyOf(absl::MakeConstSpan(params[Index(slice.param)])
                                               .subspan(slice.begin, slice.elements())));
      }
    }
    return frames;
  }

  // Runs the device's instructions of a step, as the engine would ask for them.
  std::vector<DeviceEvent> RunClock(Executor* executor, const std::vector<NodePlan>& nodes,
                                    Clock clock) {
    const Program program = BuildStep({layout_.get(), &outline_}, nodes);
    std::vector<DeviceEvent> events;
    for (const Instruction& instruction : program.instructions) {
      DeviceCommand command = {
          .clock = clock, .micro_batch_count = kDeviceMicroBatches, .tree_sum = true};
      if (const auto* forward = As<RunForward>(instruction)) {
        command.what = *forward;
      } else if (const auto* backward = As<RunBackward>(instruction)) {
        command.what = *backward;
      } else if (const auto* collect = As<CollectBucket>(instruction)) {
        command.what = *collect;
        command.wants_event = true;
      } else if (As<LoadValues>(instruction)) {
        command.what = LoadCommand{.frames = Values(clock)};
      } else {
        continue;  // the network's
      }
      executor->Run(command, &events);
    }
    return events;
  }

  struct Sums {
    std::vector<float> gradients;
    double loss = 0;
    uint64_t samples = 0;
  };
  // Of all clocks. What a clock handed over is looked at when the next one has run, as it may still
  // be on its way to a server by then.
  Sums RunAll(Executor* executor) {
    Sums sums;
    std::vector<DeviceEvent> last;
    for (Clock clock = 0; clock <= kClocks; ++clock) {
      std::vector<DeviceEvent> events;
      if (clock < kClocks) {
        events =
            RunClock(executor, PlanTreeNodes({0, 3}, {}, kDeviceMicroBatches, Merge::kOwn), clock);
      }
      for (const DeviceEvent& event : last) {
        for (const Buffer& frame : event.frames) {
          sums.gradients.insert(sums.gradients.end(), frame.floats().begin(), frame.floats().end());
        }
        sums.loss += event.loss_sum;
        sums.samples += event.trained_samples;
      }
      last = std::move(events);
    }
    return sums;
  }

  std::shared_ptr<compute::Backend> device_;
  std::shared_ptr<const models::TrainTest> data_;
  std::optional<models::Graph> graph_;
  std::shared_ptr<const wire::Layout> layout_;
  std::vector<OpOutline> outline_;
};

TEST_F(CudaExecutorTest, SumsOfRecordedStepsHaveTheBitsOfSingleCallsAndAreTheProcessors) {
  const Sums recorded = RunAll(Make(MakeReplica({.backend = device_})).get());
  const Sums single = RunAll(Make(MakeReplica({.backend = device_, .record = false})).get());
  const Sums host = RunAll(Make(nullptr).get());
  EXPECT_EQ(recorded.gradients, single.gradients);
  EXPECT_EQ(recorded.loss, single.loss);
  EXPECT_EQ(recorded.samples, host.samples);
  EXPECT_NEAR(recorded.loss, host.loss, 1e-4 * host.loss);
  ASSERT_EQ(recorded.gradients.size(), host.gradients.size());
  for (size_t i = 0; i < host.gradients.size(); ++i) {
    ASSERT_NEAR(recorded.gradients[i], host.gradients[i], 1e-3 * (1 + std::abs(host.gradients[i])));
  }
}

// The device's own clock: were it asked for earlier operators' backward pass only when the first
// bucket has been waited for, that would run after the copy.
TEST_F(CudaExecutorTest, WaitingForABucketDoesNotStopTheBackwardPass) {
  const auto replica = MakeReplica({.backend = device_});
  const auto executor = Make(replica);
  const std::vector<NodePlan> nodes = PlanSingleNode({0, kDeviceMicroBatches}, {});
  for (Clock clock = 0; clock < 2; ++clock) RunClock(executor.get(), nodes, clock);
  replica->Watch();
  RunClock(executor.get(), nodes, 2);
  std::vector<compute::QueueSpan> backward, copies;
  for (const compute::QueueSpan& span : replica->Unwatch()) {
    if (span.name.ends_with(" backward")) backward.push_back(span);
    if (span.name.starts_with("grad ")) copies.push_back(span);
  }
  ASSERT_GE(backward.size(), 3u);  // segments
  ASSERT_EQ(copies.size(), graph_->params().size());
  EXPECT_GE(copies[0].begin_ns, backward[0].end_ns);
  EXPECT_LT(backward[1].begin_ns, copies[0].end_ns);
}

}  // namespace
}  // namespace soapstone::worker
