#include "worker/device/executor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>
#include <variant>

#include "base/finite.h"
#include "base/leaf_tree.h"
#include "base/memory/past_cache.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "models/runtime/confusion.h"
#include "models/runtime/model_input.h"

namespace soapstone::worker {
namespace {

constexpr int64_t kEvaluationBatch = 256;
constexpr int64_t kEvaluationElements = int64_t{1} << 22;  // of the widest tensor

// As many samples as are evaluated together: fewer of those that are large.
size_t EvaluationBatch(const models::Graph& graph) {
  int64_t widest = 1;
  for (const models::Tensor& tensor : graph.tensors()) {
    widest = std::max(widest, tensor.elements());
  }
  return static_cast<size_t>(
      std::clamp(kEvaluationElements / widest, int64_t{1}, kEvaluationBatch));
}

// A device's, which takes long to make, holds a gradient on its way, the next and one more.
BufferPool MakePool(const models::Graph& graph, const models::GraphRunner& replica) {
  if (!replica.on_device()) return BufferPool();
  size_t bytes = 0;
  for (const ParamSpec& param : graph.params()) bytes += param.elements() * sizeof(float);
  return replica.NewPool(3 * std::bit_ceil(bytes));
}

// Where each sample has one label, and there are not too many classes.
bool HasConfusion(const models::Graph& graph, const models::Dataset& data) {
  return graph.classes() <= models::kConfusionClassesMax && data.columns.back()->elements() == 1 &&
         graph.tensor(graph.logits()).elements() == graph.classes();
}

}  // namespace

std::vector<OpOutline> OutlineOf(const models::Graph& graph) {
  std::vector<OpOutline> outline;
  for (const models::Op& op : graph.ops()) outline.push_back({op.params});
  return outline;
}

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(ExecutorOptions options) {
  if (options.replica == nullptr) {
    SOAP_ASSIGN_OR_RETURN(options.replica,
                          models::GraphRunner::Create(options.graph, {.seed = options.seed}));
  }
  return std::unique_ptr<Executor>(new Executor(std::move(options)));
}

Executor::Executor(ExecutorOptions options)
    : options_(std::move(options)),
      replica_(options_.replica.get()),
      batches_(&options_.data->train, options_.seed, options_.batch),
      op_of_(options_.graph.params().size()),
      pool_(MakePool(options_.graph, *replica_)),
      local_states_(options_.graph.params().size()) {
  if (options_.local_momentum > 0) {
    options_.optimizer.kind = compute::OptimizerKind::kNesterov;
    options_.optimizer.mu = options_.local_momentum;
  }
  if (options_.prefetch && options_.data->train.decodes()) {
    const std::shared_ptr<const models::Dataset> train(options_.data, &options_.data->train);
    prefetcher_ =
        std::make_unique<models::Prefetcher>(train, options_.seed, options_.batch, options_.batch);
  }
  offsets_.push_back(0);
  for (const ParamSpec& param : options_.graph.params()) {
    offsets_.push_back(offsets_.back() + param.elements());
  }
  for (size_t op = 0; op < options_.graph.ops().size(); ++op) {
    for (ParamId param : options_.graph.ops()[op].params) op_of_[Index(param)] = op;
  }
  last_op_ = op_of_.empty() ? 0 : *std::min_element(op_of_.begin(), op_of_.end());
  CutStep();
}

Executor::~Executor() { Settle(0); }

// A device's backward pass stops for a moment where a bucket is complete.
void Executor::CutStep() {
  if (!replica_->on_device()) return;
  std::set<uint32_t> begins;
  for (uint32_t k = 0; k < options_.layout->shard_count(); ++k) {
    for (const wire::Bucket& bucket : options_.layout->buckets(ShardId{k})) {
      begins.insert(static_cast<uint32_t>(LastOpOf(bucket)));
    }
  }
  replica_->CutStep({begins.begin(), begins.end()});
}

// The one whose gradient completes the bucket.
size_t Executor::LastOpOf(const wire::Bucket& bucket) const {
  size_t last = options_.graph.ops().size() - 1;
  for (const wire::Slice& slice : bucket.slices) {
    last = std::min(last, op_of_[Index(slice.param)]);
  }
  return last;
}

void Executor::Run(const DeviceCommand& command, std::vector<DeviceEvent>* events) {
  const Nanos begin = options_.now();
  DeviceEvent event = {.run = command.run, .instruction = command.instruction};
  std::visit([&](const auto& what) { CarryOut(command, what, &event); }, command.what);
  compute_ns_ += options_.now() - begin;
  if (!command.wants_event) return;
  TakeLoss();
  event.not_finite = std::exchange(not_finite_, {});
  event.trained_samples = std::exchange(trained_samples_, 0);
  if (!std::holds_alternative<EvaluateModel>(command.what)) {
    event.loss_sum = std::exchange(loss_sum_, 0.0);
  }
  event.compute_ns = std::exchange(compute_ns_, 0);
  events->push_back(std::move(event));
}

void Executor::CarryOut(const DeviceCommand&, const FindKeys&, DeviceEvent*) {
  LOG(FATAL) << "a graph has no tables";
}

void Executor::CarryOut(const DeviceCommand&, const LoadCommand& load, DeviceEvent*) {
  for (uint32_t k = 0; k < load.frames.size(); ++k) {
    if (load.frames[k].empty()) continue;
    const auto& slices = options_.layout->slices(ShardId{k});  // rows of tables come after them
    for (size_t i = 0; i < slices.size(); ++i) {
      const auto values = load.frames[k][i].floats();
      CopyPart(replica_->param(slices[i].param).data() + slices[i].begin, values.data(),
               values.size(), offsets_.back() * sizeof(float));
    }
  }
  if (load.fresh_momentum) local_states_.assign(local_states_.size(), {});
  if (!load.starts_round) return;
  round_start_ = load.frames;
  round_samples_ = 0;
}

void Executor::TakeBlock(size_t depth) {
  Settle(0);
  if (blocks_.size() <= depth) blocks_.resize(depth + 1);
  // Depth 0 is what gets sent, so it is never written again; the others are scratch.
  if (depth == 0) blocks_[depth] = {};  // first: where all of it has been read, it is used again
  if (blocks_[depth].data == nullptr) {
    blocks_[depth] = pool_.Take(offsets_.back() * sizeof(float));
  }
}

absl::Span<float> Executor::GradientOf(size_t depth, ParamId param) const {
  const size_t begin = offsets_[Index(param)];
  return blocks_[depth].floats().subspan(begin, offsets_[Index(param) + 1] - begin);
}

// The first operator's forward pass of a part: choose where its gradient goes, fetch its samples.
void Executor::BeginPart(const DeviceCommand& command, const RunForward& forward) {
  if (forward.begins_node) {
    stack_size_ = 0;
    node_samples_ = 0;
  }
  depth_ = stack_size_;
  TakeBlock(depth_);
  if (command.tree_sum) {
    merges_ = NodesCompletedBy(forward.part.begin, forward.node);
  } else {
    merges_ = forward.begins_node ? 0 : 1;
  }
  const models::BatchPart part = PartAt(command, forward.part, command.clock);
  part_samples_ = part.end - part.begin;
  if (part_samples_ == 0) return;
  TakeSamples(command, forward, part);
  Begin({.step = static_cast<uint64_t>(command.clock), .first_sample = part.begin});
}

void Executor::Begin(const models::StepKey& key) {
  TakeLoss();
  const absl::Status begun = replica_->Begin(feed_.samples, models::FieldsOf(feed_), key);
  LOG_IF(FATAL, !begun.ok()) << "a step of " << feed_.samples << " samples: " << begun;
}

models::BatchPart Executor::PartAt(const DeviceCommand& command, MicroBatchRange part,
                                   Clock clock) const {
  const SampleRange range =
      SamplesOfLeaves(part, command.micro_batch_count, batches_.BatchSamples(clock));
  return {.clock = clock, .begin = range.begin, .end = range.end};
}

// A worker most often computes the same micro-batches at the next clock: those are made meanwhile.
void Executor::TakeSamples(const DeviceCommand& command, const RunForward& forward,
                           const models::BatchPart& part) {
  if (prefetcher_ == nullptr) {
    batches_.Fill(part, &feed_);
    return;
  }
  prefetcher_->Take(part, &feed_);
  const Clock next = command.clock + 1;
  if (next < options_.total_clocks) prefetcher_->Expect(PartAt(command, forward.part, next));
}

void Executor::CarryOut(const DeviceCommand& command, const RunForward& forward, DeviceEvent*) {
  if (forward.op == 0) BeginPart(command, forward);
  if (part_samples_ == 0) return;
  replica_->ForwardOp(forward.op);
  if (forward.op + 1 < options_.graph.ops().size()) return;
  loss_due_ = true;
  (options_.skip_not_finite ? part_trained_ : trained_samples_) += part_samples_;
  node_samples_ += part_samples_;
  // A device has not computed it yet, and is to be asked for the backward pass first.
  if (!replica_->on_device()) TakeLoss();
}

void Executor::TakeLoss() {
  if (!std::exchange(loss_due_, false)) return;
  (options_.skip_not_finite ? part_loss_ : loss_sum_) += replica_->loss_sum();
}

void Executor::CarryOut(const DeviceCommand& command, const RunBackward& backward, DeviceEvent*) {
  const std::vector<ParamId>& params = options_.graph.ops()[backward.op].params;
  std::vector<absl::Span<float>> gradients;
  gradients.reserve(params.size());
  for (ParamId param : params) gradients.push_back(GradientOf(depth_, param));
  if (part_samples_ > 0) {
    replica_->BackwardOp(backward.op, gradients);
  } else {
    for (absl::Span<float> gradient : gradients) std::fill(gradient.begin(), gradient.end(), 0.0f);
  }
  arriving_.push_back({.op = backward.op,
                       .depth = depth_,
                       .merges = merges_,
                       .samples = part_samples_,
                       .clock = command.clock});
  if (!replica_->on_device()) Settle(0);
  if (backward.op == 0) stack_size_ = depth_ + 1 - merges_;
}

// Waits for the gradients of the operators from `op` on.
void Executor::Settle(size_t op) {
  while (!arriving_.empty() && arriving_.front().op >= op) {
    const Arriving next = arriving_.front();
    arriving_.pop_front();
    replica_->WaitForGradients(next.op);
    Check(next);
    if (!options_.skip_not_finite) {
      Merge(options_.graph.ops()[next.op].params, next.depth, next.merges);
    }
    if (next.op == 0) FinishPart(next);
  }
}

// Here because a gradient is still in the cache that it was written to. What follows it is not
// waited for: all of the sum would have to be read again.
void Executor::Check(const Arriving& arrived) {
  const std::vector<ParamId>& params = options_.graph.ops()[arrived.op].params;
  if (arrived.op == last_op_ && !params.empty() && options_.spoils != nullptr &&
      arrived.clock != spoiled_ && options_.spoils(arrived.clock)) {
    spoiled_ = arrived.clock;
    GradientOf(arrived.depth, params.front()).front() = std::nanf("");
  }
  if (odd_.has_value()) return;
  for (const ParamId param : params) {
    if (!AllFinite(GradientOf(arrived.depth, param))) odd_ = Index(param);
  }
  if (odd_.has_value() && !options_.skip_not_finite) CountOdd(*odd_, /*parameters=*/false);
}

void Executor::CountOdd(uint32_t tensor, bool parameters) {
  if (not_finite_.updates++ == 0) {
    not_finite_.tensor = tensor;
    not_finite_.parameters = parameters;
  }
}

// All gradients of a part are there. One that is not finite is left out with its samples and its
// loss, in all buckets, or nobody could say what of it was taken.
void Executor::FinishPart(const Arriving& last) {
  if (!odd_.has_value() && options_.odd_elsewhere != nullptr && last.samples > 0) {
    odd_ = options_.odd_elsewhere();
    if (odd_.has_value() && !options_.skip_not_finite) CountOdd(*odd_, /*parameters=*/false);
  }
  left_out_ = options_.skip_not_finite && odd_.has_value();
  if (left_out_) CountOdd(*odd_, /*parameters=*/false);
  odd_.reset();
  if (!options_.skip_not_finite) return;
  TakeLoss();
  if (left_out_) {
    const absl::Span<float> all = blocks_[last.depth].floats().first(offsets_.back());
    std::fill(all.begin(), all.end(), 0.0f);
    node_samples_ -= last.samples;
  } else {
    trained_samples_ += part_trained_;
    loss_sum_ += part_loss_;
  }
  part_trained_ = 0;
  part_loss_ = 0;
  for (const models::Op& op : options_.graph.ops()) Merge(op.params, last.depth, last.merges);
}

void Executor::Merge(const std::vector<ParamId>& params, size_t depth, size_t merges) {
  for (ParamId param : params) {
    for (size_t m = 0; m < merges; ++m) {
      const absl::Span<float> below = GradientOf(depth - m - 1, param);
      const absl::Span<const float> top = GradientOf(depth - m, param);
      for (size_t i = 0; i < below.size(); ++i) below[i] += top[i];
    }
  }
}

void Executor::CarryOut(const DeviceCommand&, const CollectBucket& collect, DeviceEvent* event) {
  const wire::Bucket& bucket = options_.layout->buckets(collect.shard)[Index(collect.bucket)];
  Settle(options_.skip_not_finite ? 0 : LastOpOf(bucket));
  for (const wire::Slice& slice : bucket.slices) {
    const size_t begin = offsets_[Index(slice.param)] + slice.begin;
    event->frames.push_back(
        blocks_[0].View(begin * sizeof(float), slice.elements() * sizeof(float)));
  }
  event->samples = node_samples_;
}

// A local step x <- x - lr g, with g the mean over the samples of this worker's mini-batch.
void Executor::CarryOut(const DeviceCommand& command, const UpdateLocally&, DeviceEvent*) {
  Settle(0);
  if (node_samples_ == 0) return;
  round_samples_ += node_samples_;
  compute::Update update = {.lr = compute::LearningRate(options_.optimizer, options_.schedule,
                                                        command.clock, options_.total_clocks),
                            .scale = 1.0 / static_cast<double>(node_samples_),
                            .fraction = 1.0};
  for (size_t p = 0; p < local_states_.size(); ++p) {
    const ParamId param{static_cast<uint32_t>(p)};
    update.average_rate = options_.graph.param(param).average_rate;
    const bool finite = compute::ApplyGradient(options_.optimizer, update, GradientOf(0, param),
                                               replica_->param(param), &local_states_[p]);
    if (!finite) CountOdd(static_cast<uint32_t>(p), /*parameters=*/true);
  }
}

// d = alpha (x - centre), x <- x - d; the shard adds the very same d to the centre, so their sum
// is conserved (Zhang et al., NIPS 2015, eqs. 3 and 4).
void Executor::CarryOut(const DeviceCommand&, const ElasticCommand& elastic, DeviceEvent*) {
  TakeBlock(0);
  node_samples_ = std::exchange(round_samples_, 0);
  const float alpha = static_cast<float>(elastic.alpha);
  for (uint32_t k = 0; k < elastic.frames.size(); ++k) {
    const auto& slices = options_.layout->slices(ShardId{k});
    for (size_t i = 0; i < elastic.frames[k].size(); ++i) {
      const wire::Slice& slice = slices[i];
      const absl::Span<const float> centre = elastic.frames[k][i].floats();
      const absl::Span<float> x =
          replica_->param(slice.param).subspan(slice.begin, slice.elements());
      const absl::Span<float> d = GradientOf(0, slice.param).subspan(slice.begin, slice.elements());
      for (size_t e = 0; e < x.size(); ++e) {
        d[e] = alpha * (x[e] - centre[e]);
        x[e] -= d[e];
      }
    }
  }
}

// d = x - x_0, with x_0 what the round began with, and the samples seen since
// (consistency::AverageRule).
void Executor::CarryOut(const DeviceCommand&, const TakeDelta&, DeviceEvent*) {
  TakeBlock(0);
  node_samples_ = std::exchange(round_samples_, 0);
  for (uint32_t k = 0; k < round_start_.size(); ++k) {
    const auto& slices = options_.layout->slices(ShardId{k});
    for (size_t i = 0; i < round_start_[k].size(); ++i) {
      const wire::Slice& slice = slices[i];
      const absl::Span<const float> start = round_start_[k][i].floats();
      const absl::Span<const float> x =
          replica_->param(slice.param).subspan(slice.begin, slice.elements());
      const absl::Span<float> d = GradientOf(0, slice.param).subspan(slice.begin, slice.elements());
      for (size_t e = 0; e < x.size(); ++e) d[e] = x[e] - start[e];
    }
  }
}

void Executor::CarryOut(const DeviceCommand& command, const EvaluateModel&, DeviceEvent* event) {
  *event = Evaluate();
  event->run = command.run;
  event->instruction = command.instruction;
}

DeviceEvent Executor::Evaluate() {
  DeviceEvent event;
  const size_t batch = EvaluationBatch(options_.graph);
  double correct = 0;  // of many places a sample counts by the share that is
  const models::Dataset& test = options_.data->test;
  std::vector<uint64_t> indexes(test.size());
  std::iota(indexes.begin(), indexes.end(), 0);
  const bool counts = HasConfusion(options_.graph, test);
  models::Confusion confusion = models::EmptyConfusion(counts ? options_.graph.classes() : 0);
  for (size_t begin = 0; begin < indexes.size(); begin += batch) {
    const size_t count = std::min(batch, indexes.size() - begin);
    test.Gather(absl::MakeConstSpan(indexes).subspan(begin, count), &feed_);
    Begin({.training = false});
    for (size_t op = 0; op < options_.graph.ops().size(); ++op) replica_->ForwardOp(op);
    event.loss_sum += replica_->loss_sum();
    correct += replica_->correct();
    event.samples += count;
    if (counts) {
      models::CountConfusion(replica_->logits(), feed_.Ints(feed_.fields.size() - 1), &confusion);
    }
  }
  event.frames = models::FramesOf(confusion);
  event.correct = std::round(correct);
  return event;
}

}  // namespace soapstone::worker
