// Executor: carries out device commands on a models::GraphRunner. Owned by the device thread of a
// worker's shell; knows nothing of messages or clocks on the wall (the time is handed in).
//
// Gradients are written by the backward pass straight into a block of the pool, from which they
// are sent; the block returns to the pool when the transport lets go of it. Where a GPU computes
// they are copied there while it goes on, and a bucket is waited for when it is collected.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/memory/buffer.h"
#include "compute/optimizer.h"
#include "compute/schedule.h"
#include "glog/logging.h"
#include "models/data/batches.h"
#include "models/data/dataset.h"
#include "models/data/mini_batch.h"
#include "models/data/prefetcher.h"
#include "models/runtime/graph_runner.h"
#include "wire/layout.h"
#include "worker/device/device.h"

namespace soapstone::worker {

struct ExecutorOptions {
  models::Graph graph;
  std::shared_ptr<const models::TrainTest> data;
  std::shared_ptr<const wire::Layout> layout;
  uint64_t seed = 0;
  uint64_t batch = 1;
  compute::OptimizerSpec optimizer;  // of local steps
  double local_momentum = 0;         // > 0: local steps are Nesterov's with it
  compute::ScheduleSpec schedule;
  Clock total_clocks = 0;
  std::function<Nanos()> now;
  // Make the next batches on another thread, where the data have to be decoded. The bits are the
  // same.
  bool prefetch = false;
  // Null: one of its own. Executors of simulated workers share one, and their caller exchanges its
  // parameters around each Run (models/runtime/graph_runner.h).
  std::shared_ptr<models::GraphRunner> replica;
  // A part whose gradient is not finite is left out of its sum: it stands for no samples. Else it
  // is only told of (DeviceEvent::not_finite).
  bool skip_not_finite = false;
  // Asked when a part's gradients are all there: a tensor of the caller's that is not finite (as in
  // DeviceEvent::NotFinite). Null: there are none.
  std::function<std::optional<uint32_t>()> odd_elsewhere;
  // A fault for tests: at these clocks one element of the gradient is NaN, once. Null: never.
  std::function<bool(Clock)> spoils;
};

// The outline that the engine needs of a graph.
std::vector<OpOutline> OutlineOf(const models::Graph& graph);

class Executor {
 public:
  // Error: an operator that this machine cannot run.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(ExecutorOptions options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Carries out one command; appends its event, where one is wanted.
  void Run(const DeviceCommand& command, std::vector<DeviceEvent>* events);

  // Loss and accuracy of the present parameters on the held-out data; where each sample has one
  // label, its frames are the confusion's (models/runtime/confusion.h).
  DeviceEvent Evaluate();
  // Waits for all gradients that were asked for; and whether the last part of them was left out.
  bool LeftOut() {
    Settle(0);
    return left_out_;
  }
  const models::GraphRunner& replica() const { return *options_.replica; }

 private:
  // Gradients of a part that the device may still be copying, by operator, descending: where they
  // go, and how often they are then added to the block below.
  struct Arriving {
    size_t op = 0;
    size_t depth = 0, merges = 0;
    uint64_t samples = 0;  // of the part
    Clock clock = 0;
  };

  explicit Executor(ExecutorOptions options);
  void CutStep();

  // What Run does, by the command's work; what is to be told of it goes into the event.
  void CarryOut(const DeviceCommand& command, const FindKeys& keys, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const LoadCommand& load, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const RunForward& forward, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const RunBackward& backward, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const CollectBucket& collect, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const UpdateLocally& update, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const ElasticCommand& elastic, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const TakeDelta& delta, DeviceEvent* event);
  void CarryOut(const DeviceCommand& command, const EvaluateModel& evaluate, DeviceEvent* event);
  // A seat's.
  template <typename Other>
  void CarryOut(const DeviceCommand&, const Other&, DeviceEvent*) {
    LOG(FATAL) << "of a team's section";
  }

  void BeginPart(const DeviceCommand& command, const RunForward& forward);
  models::BatchPart PartAt(const DeviceCommand& command, MicroBatchRange part, Clock clock) const;
  void TakeSamples(const DeviceCommand& command, const RunForward& forward,
                   const models::BatchPart& part);
  void Begin(const models::StepKey& key);
  void Check(const Arriving& arrived);
  void CountOdd(uint32_t tensor, bool parameters);
  void FinishPart(const Arriving& last);
  void Merge(const std::vector<ParamId>& params, size_t depth, size_t merges);
  void Settle(size_t op);
  size_t LastOpOf(const wire::Bucket& bucket) const;
  void TakeLoss();
  absl::Span<float> GradientOf(size_t depth, ParamId param) const;
  void TakeBlock(size_t depth);

  ExecutorOptions options_;
  models::GraphRunner* replica_;  // of the options
  models::Batches batches_;
  std::unique_ptr<models::Prefetcher> prefetcher_;  // null: batches_ are made when they are needed
  std::vector<size_t> op_of_;                       // by parameter: whose gradient it is
  BufferPool pool_;
  std::vector<size_t> offsets_;  // by parameter, in elements, into a block; then the total
  std::vector<compute::SliceState> local_states_;  // by parameter

  // The sum in progress. Partial sums of the tree lie on a stack of blocks: a part's gradient is
  // written at `depth_`, then `merges_` times the top is added to the one below it.
  std::vector<BufferPool::Block> blocks_;
  size_t stack_size_ = 0;
  size_t depth_ = 0;
  size_t merges_ = 0;
  uint64_t part_samples_ = 0;
  uint64_t node_samples_ = 0;

  std::deque<Arriving> arriving_;
  bool loss_due_ = false;  // that of the last part has not been taken
  size_t last_op_ = 0;     // in the order of gradients: the last that has parameters
  Clock spoiled_ = kNoClock;
  std::optional<uint32_t> odd_;  // the first tensor of the part whose gradient is not finite
  bool left_out_ = false;

  // The round of local steps in progress: what it began with, by shard (TakeDelta), and its
  // samples.
  std::vector<Buffers> round_start_;
  uint64_t round_samples_ = 0;

  models::MiniBatch feed_;
  // Since the last event.
  uint64_t trained_samples_ = 0;
  double loss_sum_ = 0;
  Nanos compute_ns_ = 0;
  DeviceEvent::NotFinite not_finite_;
  // Of the part in hand, until it is known whether it counts (skip_not_finite).
  uint64_t part_trained_ = 0;
  double part_loss_ = 0;
};

}  // namespace soapstone::worker
