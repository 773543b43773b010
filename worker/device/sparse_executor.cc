#include "worker/device/sparse_executor.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>
#include <variant>

#include "base/finite.h"
#include "base/leaf_tree.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "models/runtime/confusion.h"
#include "wire/key_shard.h"

namespace soapstone::worker {

std::vector<OpOutline> SparseOutline(const models::SparseModel& model) {
  return model.graph() != nullptr ? OutlineOf(*model.graph()) : std::vector{OpOutline{}};
}

absl::StatusOr<std::unique_ptr<SparseExecutor>> SparseExecutor::Create(
    SparseExecutorOptions options) {
  std::unique_ptr<SparseExecutor> made(new SparseExecutor(std::move(options)));
  const SparseExecutorOptions& o = made->options_;
  if (o.model->graph() == nullptr) return made;
  std::shared_ptr<models::GraphRunner> replica = o.replica;
  if (replica == nullptr) {
    SOAP_ASSIGN_OR_RETURN(
        replica,
        models::GraphRunner::Create(*o.model->graph(),
                                    {.seed = o.seed, .input_gradients = {o.model->rows_input()}}));
  }
  // The gradients of rows are sums of those of the graph's input.
  const auto odd_elsewhere = [model = o.model.get(), replica = replica.get(),
                              table = static_cast<uint32_t>(o.layout->params().size())] {
    const bool finite = AllFinite(replica->InputGradient(model->rows_input()));
    return finite ? std::nullopt : std::optional(table);
  };
  // Its time is counted with ours.
  SOAP_ASSIGN_OR_RETURN(made->graph_, Executor::Create({.graph = *o.model->graph(),
                                                        .data = std::make_shared<models::TrainTest>(
                                                            o.model->DataOver(&made->rows_)),
                                                        .layout = o.layout,
                                                        .seed = o.seed,
                                                        .batch = o.batch,
                                                        .now = [] { return Nanos{0}; },
                                                        .replica = std::move(replica),
                                                        .skip_not_finite = o.skip_not_finite,
                                                        .odd_elsewhere = odd_elsewhere}));
  return made;
}

SparseExecutor::SparseExecutor(SparseExecutorOptions options)
    : options_(std::move(options)),
      sampler_(options_.seed, options_.model->data().train.size(), options_.batch),
      wanted_(options_.model->tables().size()),
      rows_(options_.model->tables().size()) {}

bool SparseExecutor::ConcernsGraph(const DeviceCommand& command) const {
  if (graph_ == nullptr || std::holds_alternative<FindKeys>(command.what)) return false;
  const auto* collect = std::get_if<CollectBucket>(&command.what);
  return collect == nullptr ||
         !options_.layout->TableOf(collect->shard, collect->bucket).has_value();
}

void SparseExecutor::Run(const DeviceCommand& command, std::vector<DeviceEvent>* events) {
  const Nanos begin = options_.now();
  std::vector<DeviceEvent> of_graph;
  if (ConcernsGraph(command)) graph_->Run(command, &of_graph);
  DeviceEvent event = {.run = command.run, .instruction = command.instruction};
  if (!of_graph.empty()) event = std::move(of_graph[0]);
  std::visit([&](const auto& what) { CarryOut(command, what, &event); }, command.what);
  compute_ns_ += options_.now() - begin;
  if (!command.wants_event) return;
  if (graph_ == nullptr) {
    event.not_finite = std::exchange(not_finite_, {});
    event.trained_samples = std::exchange(trained_samples_, 0);
    if (!std::holds_alternative<EvaluateModel>(command.what)) {
      event.loss_sum = std::exchange(loss_sum_, 0.0);
    }
  }
  event.compute_ns = std::exchange(compute_ns_, 0);
  events->push_back(std::move(event));
}

// Training samples. Valid until the next call.
models::SparseBatch SparseExecutor::BatchOf(const DeviceCommand& command, MicroBatchRange part) {
  const SampleRange range =
      SamplesOfLeaves(part, command.micro_batch_count, sampler_.BatchSamples(command.clock));
  return {.clock = command.clock,
          .samples = sampler_.Samples(command.clock, range.begin, range.end)};
}

void SparseExecutor::CarryOut(const DeviceCommand& command, const FindKeys& keys,
                              DeviceEvent* event) {
  if (keys.first) wanted_.assign(wanted_.size(), {});
  if (!keys.held_out) {
    options_.model->AddKeys(BatchOf(command, keys.part), &wanted_);
  } else {
    std::vector<uint64_t> samples(options_.model->data().test.size());
    std::iota(samples.begin(), samples.end(), 0);
    options_.model->AddKeys({.held_out = true, .samples = samples}, &wanted_);
  }
  if (!keys.last) return;
  const uint32_t shards = options_.layout->shard_count();
  event->frames.resize(size_t{shards} * wanted_.size());
  for (uint32_t t = 0; t < wanted_.size(); ++t) {
    std::sort(wanted_[t].begin(), wanted_[t].end());
    wanted_[t].erase(std::unique(wanted_[t].begin(), wanted_[t].end()), wanted_[t].end());
    Buffers divided = Divide(t, wanted_[t]);
    for (uint32_t k = 0; k < shards; ++k) {
      event->frames[k * wanted_.size() + t] = std::move(divided[k]);
    }
  }
}

// Keys by shard.
Buffers SparseExecutor::Divide(uint32_t table, const std::vector<uint64_t>& keys) const {
  std::vector<std::vector<uint64_t>> by_shard(options_.layout->shard_count());
  for (const uint64_t key : keys) {
    by_shard[Index(wire::ShardOfKey(table, key, options_.layout->shard_count()))].push_back(key);
  }
  Buffers frames;
  for (const std::vector<uint64_t>& part : by_shard)
    frames.push_back(Buffer::CopyOf<uint64_t>(part));
  return frames;
}

// A shard's rows come in the order of its keys, which is the order of all.
void SparseExecutor::CarryOut(const DeviceCommand&, const LoadCommand& load, DeviceEvent*) {
  const uint32_t shards = options_.layout->shard_count();
  for (uint32_t t = 0; t < wanted_.size(); ++t) {
    const uint32_t dim = options_.model->tables()[t].dim;
    SparseRows rows = {.keys = wanted_[t]};
    rows.rows.resize(rows.keys.size() * dim);
    std::vector<absl::Span<const float>> left(shards);
    for (uint32_t k = 0; k < shards; ++k) {
      if (load.frames[k].empty()) continue;
      left[k] = load.frames[k][options_.layout->slices(ShardId{k}).size() + t].floats();
    }
    for (size_t i = 0; i < rows.keys.size(); ++i) {
      absl::Span<const float>& from = left[Index(wire::ShardOfKey(t, rows.keys[i], shards))];
      CHECK_GE(from.size(), dim) << "a shard's reply lacks rows";  // the engine has checked it
      std::copy_n(from.begin(), dim, rows.rows.begin() + static_cast<ptrdiff_t>(i * dim));
      from.remove_prefix(dim);
    }
    rows_[t] = models::RowBlock(std::move(rows), dim);
  }
}

// The first operator's pass begins the part.
void SparseExecutor::CarryOut(const DeviceCommand& command, const RunForward& forward,
                              DeviceEvent*) {
  if (forward.op > 0) return;
  if (forward.begins_node) {
    sums_.clear();
    node_samples_ = 0;
  }
  const models::SparseBatch batch = BatchOf(command, forward.part);
  part_samples_ = batch.samples.size();
  if (graph_ == nullptr) part_loss_ = options_.model->Run(batch, &rows_).loss_sum;
}

// The first operator's ends it: the gradient of the graph's rows is there.
void SparseExecutor::CarryOut(const DeviceCommand& command, const RunBackward& backward,
                              DeviceEvent*) {
  if (backward.op > 0) return;
  if (graph_ != nullptr) {
    const models::SparseBatch batch = BatchOf(command, backward.part);
    if (!batch.samples.empty()) {
      const models::TensorId input = options_.model->rows_input();
      options_.model->AddGradients(batch, graph_->replica().InputGradient(input), &rows_);
    }
  }
  SumRows(command, backward);
}

bool SparseExecutor::LeavesOut(const Rows& gradients) {
  if (graph_ != nullptr) return options_.skip_not_finite && graph_->LeftOut();
  for (size_t t = 0; t < gradients.size(); ++t) {
    if (AllFinite(gradients[t].rows)) continue;
    if (not_finite_.updates++ == 0) {
      not_finite_.tensor = static_cast<uint32_t>(options_.layout->params().size() + t);
    }
    return options_.skip_not_finite;
  }
  return false;
}

void SparseExecutor::SumRows(const DeviceCommand& command, const RunBackward& backward) {
  Rows gradients;
  for (models::RowBlock& rows : rows_) gradients.push_back(rows.TakeGradients());
  if (LeavesOut(gradients)) {
    gradients.assign(gradients.size(), {});
  } else {
    node_samples_ += part_samples_;
    trained_samples_ += part_samples_;
    loss_sum_ += part_loss_;
  }
  sums_.push_back(std::move(gradients));
  uint32_t merges = backward.begins_node ? 0 : 1;
  if (command.tree_sum) merges = NodesCompletedBy(backward.part.begin, backward.node);
  for (uint32_t m = 0; m < merges; ++m) {
    const Rows top = std::move(sums_.back());
    sums_.pop_back();
    for (uint32_t t = 0; t < top.size(); ++t) {
      sums_.back()[t] = SumOf(sums_.back()[t], top[t], options_.model->tables()[t].dim);
    }
  }
}

// A bucket of slices is the graph's.
void SparseExecutor::CarryOut(const DeviceCommand& command, const CollectBucket& collect,
                              DeviceEvent* event) {
  if (ConcernsGraph(command)) return;
  const std::optional<uint32_t> table = options_.layout->TableOf(collect.shard, collect.bucket);
  if (table.has_value()) event->frames = Collect(collect.shard, *table);
  event->samples = node_samples_;
}

// What of the table's sum belongs to a shard, in blocks from which it is sent.
Buffers SparseExecutor::Collect(ShardId shard, uint32_t table) {
  const uint32_t dim = options_.model->tables()[table].dim;
  const SparseRows& sum = sums_[0][table];
  std::vector<size_t> here;
  for (size_t i = 0; i < sum.keys.size(); ++i) {
    const ShardId home = wire::ShardOfKey(table, sum.keys[i], options_.layout->shard_count());
    if (home == shard) here.push_back(i);
  }
  if (here.empty()) return {Buffer(), Buffer()};
  const BufferPool::Block keys = pool_.Take(here.size() * sizeof(uint64_t));
  const BufferPool::Block rows = pool_.Take(here.size() * dim * sizeof(float));
  for (size_t i = 0; i < here.size(); ++i) {
    std::memcpy(keys.data + i * sizeof(uint64_t), &sum.keys[here[i]], sizeof(uint64_t));
    std::memcpy(rows.data + i * dim * sizeof(float), sum.rows.data() + here[i] * dim,
                dim * sizeof(float));
  }
  return {keys.View(), rows.View()};
}

// No policy that takes tables asks for these.
void SparseExecutor::CarryOut(const DeviceCommand&, const UpdateLocally&, DeviceEvent*) {
  LOG(FATAL) << "no local step with rows";
}
void SparseExecutor::CarryOut(const DeviceCommand&, const ElasticCommand&, DeviceEvent*) {
  LOG(FATAL) << "no elastic move of rows";
}
void SparseExecutor::CarryOut(const DeviceCommand&, const TakeDelta&, DeviceEvent*) {
  LOG(FATAL) << "no delta of rows";
}

// On the rows loaded, which are those of the held-out data.
void SparseExecutor::CarryOut(const DeviceCommand&, const EvaluateModel&, DeviceEvent* event) {
  if (graph_ != nullptr) return;
  std::vector<uint64_t> samples(options_.model->data().test.size());
  std::iota(samples.begin(), samples.end(), 0);
  const models::SparseLoss loss =
      options_.model->Run({.held_out = true, .samples = samples}, &rows_);
  event->loss_sum = loss.loss_sum;
  event->correct = loss.correct;
  event->samples = samples.size();
  event->frames = models::FramesOf(loss.confusion);
}

}  // namespace soapstone::worker
