#include "worker/program/program.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "glog/logging.h"

namespace soapstone::worker {
namespace {

// Appends instructions; each device instruction depends on the device instruction before it, since
// the device is a stream.
class Builder {
 public:
  Builder(const ProgramInputs& inputs, Program::Kind kind) : inputs_(inputs) {
    program_.kind = kind;
    const uint32_t shards = inputs.layout->shard_count();
    pulls_.resize(shards);
    pushes_.resize(shards);
  }

  // Before PullAll: it asks for the rows of `parts`, or of the held-out data.
  void Keys(const std::vector<MicroBatchRange>& parts, bool held_out = false) {
    if (inputs_.layout->tables().empty()) return;
    for (size_t p = 0; p < parts.size(); ++p) {
      Device(FindKeys{
          .part = parts[p], .held_out = held_out, .first = p == 0, .last = p + 1 == parts.size()});
      keys_ = last_device_;
    }
  }

  std::vector<uint32_t> PullAll() {
    std::vector<uint32_t> deps;
    for (uint32_t k = 0; k < inputs_.layout->shard_count(); ++k) {
      std::vector<uint32_t> before;
      if (inputs_.ordered_reads && k > 0) before.push_back(deps.back());
      if (keys_ >= 0) before.insert(before.begin(), static_cast<uint32_t>(keys_));
      const uint32_t pull = Append(SendPull{ShardId{k}}, std::move(before));
      pulls_[k].push_back(pull);
      deps.push_back(pull);
    }
    return deps;
  }

  void PullAllThen(DeviceInstruction then) {
    std::vector<uint32_t> deps = PullAll();
    last_device_ = static_cast<int64_t>(Append(then, std::move(deps)));
  }

  // By transfer stages: the loads come with the first part's forward pass.
  void PullByTransferStages() {
    PullAll();
    to_load_.resize(pulls_.size());
    std::iota(to_load_.begin(), to_load_.end(), 0);
    std::stable_sort(to_load_.begin(), to_load_.end(), [&](uint32_t a, uint32_t b) {
      return inputs_.layout->transfer_stage(ShardId{a}) <
             inputs_.layout->transfer_stage(ShardId{b});
    });
  }

  void PrefetchAll() {
    for (uint32_t k = 0; k < inputs_.layout->shard_count(); ++k) {
      Append(SendPrefetch{ShardId{k}}, pulls_[k]);
    }
  }

  // What has not been loaded yet.
  void LoadRest() {
    for (const uint32_t shard : to_load_) Load(ShardId{shard});
    to_load_.clear();
  }

  void Device(DeviceInstruction what, std::vector<uint32_t> deps = {}) {
    deps.insert(deps.end(), granted_.begin(), granted_.end());
    granted_.clear();
    if (last_device_ >= 0) deps.push_back(static_cast<uint32_t>(last_device_));
    last_device_ = static_cast<int64_t>(Append(what, std::move(deps)));
  }

  // Forward and backward of every part of `node`. With `push`, buckets leave as they get ready
  // during the last part's backward pass, or after it (whole_nodes).
  void Compute(const NodePlan& plan, bool push) {
    const uint32_t ops = static_cast<uint32_t>(inputs_.ops->size());
    for (size_t p = 0; p < plan.parts.size(); ++p) {
      const MicroBatchRange part = plan.parts[p];
      const bool first = p == 0;
      const bool last = p + 1 == plan.parts.size();
      for (uint32_t op = 0; op < ops; ++op) {
        LoadFor((*inputs_.ops)[op].params);
        Device(RunForward{.op = op, .node = plan.node, .part = part, .begins_node = first});
      }
      LoadRest();
      if (push && last) StartBuckets();
      for (uint32_t i = 0; i < ops; ++i) {
        const uint32_t op = ops - 1 - i;
        Device(RunBackward{.op = op, .node = plan.node, .part = part, .begins_node = first});
        if (push && last && !inputs_.whole_nodes) PushReady((*inputs_.ops)[op].params, plan.node);
      }
      if (push && last) PushLeft(plan.node);
    }
    program_.nodes.push_back(plan);
  }

  void PushAll(MicroBatchRange node) {
    for (uint32_t k = 0; k < inputs_.layout->shard_count(); ++k) {
      const auto& buckets = inputs_.layout->buckets(ShardId{k});
      for (uint32_t b = 0; b < buckets.size(); ++b) Push(ShardId{k}, BucketId{b}, node);
    }
  }

  void ClockAll() {
    for (uint32_t k = 0; k < inputs_.layout->shard_count(); ++k) {
      std::vector<uint32_t> deps = pulls_[k];
      deps.insert(deps.end(), pushes_[k].begin(), pushes_[k].end());
      const uint32_t clock = Append(SendClock{ShardId{k}}, std::move(deps));
      if (inputs_.asks_early) Append(SendPrefetch{ShardId{k}}, {clock});
    }
  }

  // The steps of a seat; with `node` buckets leave as they get ready.
  void RunSeat(const SeatOutline& outline, bool held_out, std::optional<MicroBatchRange> node) {
    AwaitGrants(outline);
    Device(BeginBatch{.held_out = held_out});
    if (node.has_value()) StartBuckets();
    for (uint32_t s = 0; s < outline.steps.size(); ++s) RunSeatStep(outline, s, node);
    CHECK(!node.has_value() || waiting_.empty()) << "a gradient that no part of the seat makes";
  }

  // What follows is of a clock so much later.
  void SetAhead(Clock ahead) { ahead_ = ahead; }

  // Word to other seats that this clock is begun, and theirs, which the device waits for next.
  void AwaitGrants(const SeatOutline& outline) {
    for (const SeatOutline::Block& grant : outline.grants) {
      Append(SendBlock{.number = grant.number, .seat = grant.seat}, {});
    }
    for (const SeatOutline::Block& awaited : outline.awaited) {
      granted_.push_back(Append(ReceiveBlock{.number = awaited.number}, {}));
    }
  }

  // The forward halves of a seat that runs ahead, and its backward halves.
  void RunSeatForward(const SeatOutline& outline) {
    Device(BeginBatch{});
    for (uint32_t s = 0; s < outline.backward_from; ++s) RunSeatStep(outline, s, std::nullopt);
  }
  void RunSeatBackward(const SeatOutline& outline, MicroBatchRange node) {
    StartBuckets();
    for (uint32_t s = outline.backward_from; s < outline.steps.size(); ++s) {
      RunSeatStep(outline, s, node);
    }
    CHECK(waiting_.empty()) << "a gradient that no part of the seat makes";
  }

  Program Take(Clock lead = 0) {
    program_.lead = lead;
    LinkProgram(&program_);
    return std::move(program_);
  }

 private:
  struct Waiting {
    ShardId shard{};
    BucketId bucket{};
    std::vector<ParamId> params;  // whose gradient is not ready yet
  };

  uint32_t Append(std::variant<DeviceInstruction, NetworkInstruction> what,
                  std::vector<uint32_t> deps) {
    program_.instructions.push_back({.what = what, .deps = std::move(deps), .ahead = ahead_});
    return static_cast<uint32_t>(program_.instructions.size() - 1);
  }

  void Load(ShardId shard) { Device(LoadValues{shard}, pulls_[Index(shard)]); }

  void LoadFor(const std::vector<ParamId>& params) {
    for (auto it = to_load_.begin(); it != to_load_.end();) {
      const auto& slices = inputs_.layout->slices(ShardId{*it});
      const bool wanted = std::any_of(slices.begin(), slices.end(), [&](const wire::Slice& slice) {
        return std::find(params.begin(), params.end(), slice.param) != params.end();
      });
      if (wanted) Load(ShardId{*it});
      it = wanted ? to_load_.erase(it) : std::next(it);
    }
  }

  void StartBuckets() {
    waiting_.clear();
    for (uint32_t k = 0; k < inputs_.layout->shard_count(); ++k) {
      const auto& buckets = inputs_.layout->buckets(ShardId{k});
      for (uint32_t b = 0; b < buckets.size(); ++b) {
        Waiting waiting = {ShardId{k}, BucketId{b}, {}};
        for (const wire::Slice& slice : buckets[b].slices) waiting.params.push_back(slice.param);
        std::sort(waiting.params.begin(), waiting.params.end());
        waiting.params.erase(std::unique(waiting.params.begin(), waiting.params.end()),
                             waiting.params.end());
        waiting_.push_back(std::move(waiting));
      }
    }
  }

  void RunSeatStep(const SeatOutline& outline, uint32_t s, std::optional<MicroBatchRange> node) {
    const SeatOutline::Step& step = outline.steps[s];
    switch (step.kind) {
      case SeatOutline::Step::Kind::kTake: {
        const uint32_t number = outline.incoming[step.index].number;
        const uint32_t received = Append(ReceiveBlock{.number = number}, {});
        Device(TakeBlock{.index = step.index, .number = number}, {received});
        break;
      }
      case SeatOutline::Step::Kind::kGive: {
        const SeatOutline::Block& block = outline.outgoing[step.index];
        Device(GiveBlock{.index = step.index});
        Append(SendBlock{.number = block.number, .seat = block.seat},
               {static_cast<uint32_t>(last_device_)});
        break;
      }
      case SeatOutline::Step::Kind::kRun: {
        // Of a seat that ends a run it has led, this may be the program's first.
        auto* const before =
            program_.instructions.empty()
                ? nullptr
                : std::get_if<DeviceInstruction>(&program_.instructions.back().what);
        auto* const run = before != nullptr ? std::get_if<RunSection>(before) : nullptr;
        const bool goes_on = run != nullptr && run->last == s;
        if (goes_on && program_.instructions.back().ahead == ahead_) {
          run->last = s + 1;
        } else {
          Device(RunSection{.first = s, .last = s + 1});
        }
        if (node.has_value() && !step.ready.empty()) PushReady(step.ready, *node);
        break;
      }
    }
  }

  void PushReady(const std::vector<ParamId>& ready, MicroBatchRange node) {
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      std::erase_if(it->params, [&](ParamId param) {
        return std::find(ready.begin(), ready.end(), param) != ready.end();
      });
      if (!it->params.empty()) {
        ++it;
        continue;
      }
      Push(it->shard, it->bucket, node);
      it = waiting_.erase(it);
    }
  }

  // What has not left during the backward pass, in the order of that.
  void PushLeft(MicroBatchRange node) {
    const auto& ops = *inputs_.ops;
    for (size_t i = ops.size(); i > 0 && !waiting_.empty(); --i) PushReady(ops[i - 1].params, node);
    PushTables(node);
  }

  void PushTables(MicroBatchRange node) {
    const wire::Layout& layout = *inputs_.layout;
    for (uint32_t k = 0; k < layout.shard_count(); ++k) {
      for (uint32_t t = 0; t < layout.tables().size(); ++t) {
        Push(ShardId{k}, layout.BucketOfTable(ShardId{k}, t), node);
      }
    }
  }

  void Push(ShardId shard, BucketId bucket, MicroBatchRange node) {
    Device(CollectBucket{.shard = shard, .bucket = bucket, .node = node});
    pushes_[Index(shard)].push_back(Append(SendPush{.shard = shard, .bucket = bucket, .node = node},
                                           {static_cast<uint32_t>(last_device_)}));
  }

  const ProgramInputs& inputs_;
  Program program_;
  int64_t last_device_ = -1;
  int64_t keys_ = -1;  // the last FindKeys
  Clock ahead_ = 0;
  std::vector<uint32_t> granted_;              // that the next instruction of the device waits for
  std::vector<std::vector<uint32_t>> pulls_;   // by shard
  std::vector<std::vector<uint32_t>> pushes_;  // by shard
  std::vector<uint32_t> to_load_;  // by transfer stages: shards not loaded yet, in that order
  std::vector<Waiting> waiting_;
};

std::vector<MicroBatchRange> KeyParts(const ProgramInputs& inputs,
                                      const std::vector<NodePlan>& nodes) {
  if (inputs.keys_of_micro_batches > 0) return {{0, inputs.keys_of_micro_batches}};
  std::vector<MicroBatchRange> parts;
  for (const NodePlan& node : nodes) {
    parts.insert(parts.end(), node.parts.begin(), node.parts.end());
  }
  return parts;
}

}  // namespace

ShardId ShardOf(const NetworkInstruction& what) {
  return std::visit(
      []<typename Message>(const Message& message) {
        if constexpr (std::is_same_v<Message, SendBlock> || std::is_same_v<Message, ReceiveBlock>) {
          LOG(FATAL) << "a message that is for no shard";
          return ShardId{};
        } else {
          return message.shard;
        }
      },
      what);
}

void LinkProgram(Program* program) {
  const std::vector<Instruction>& instructions = program->instructions;
  const auto waits = [&](const Instruction& instruction, uint32_t dependency) {
    return !IsOfDevice(instruction) || !IsOfDevice(instructions[dependency]);
  };
  program->awaited.assign(instructions.size(), 0);
  program->first_dependant.assign(instructions.size() + 1, 0);
  program->device.clear();
  program->pulls.clear();
  program->receives.clear();
  program->loads = 0;
  for (uint32_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    for (const uint32_t d : instruction.deps) {
      if (!waits(instruction, d)) continue;
      ++program->awaited[i];
      ++program->first_dependant[d + 1];
    }
    if (IsOfDevice(instruction)) program->device.push_back(i);
    if (const auto* pull = As<SendPull>(instruction)) {
      CHECK_EQ(Index(pull->shard), program->pulls.size()) << "one a shard, in order";
      program->pulls.push_back(i);
    }
    if (const auto* receive = As<ReceiveBlock>(instruction)) {
      CHECK(program->receives.emplace(receive->number, i).second) << "a block that comes twice";
    }
    const bool loads = As<LoadValues>(instruction) || As<MoveElastically>(instruction);
    program->loads += loads ? 1 : 0;
  }
  std::partial_sum(program->first_dependant.begin(), program->first_dependant.end(),
                   program->first_dependant.begin());
  program->dependants.resize(program->first_dependant.back());
  std::vector<uint32_t> next = program->first_dependant;
  for (uint32_t i = 0; i < instructions.size(); ++i) {
    for (const uint32_t d : instructions[i].deps) {
      if (waits(instructions[i], d)) program->dependants[next[d]++] = i;
    }
  }
}

Program BuildStep(const ProgramInputs& inputs, const std::vector<NodePlan>& nodes) {
  Builder builder(inputs, Program::Kind::kStep);
  builder.Keys(KeyParts(inputs, nodes));
  if (inputs.by_transfer_stages) {
    builder.PullByTransferStages();
  } else {
    builder.PullAllThen(LoadValues{});
  }
  for (const NodePlan& node : nodes) builder.Compute(node, /*push=*/true);
  builder.LoadRest();
  builder.ClockAll();
  return builder.Take();
}

Program BuildTakeover(const ProgramInputs& inputs, const std::vector<NodePlan>& nodes,
                      bool reload) {
  Builder builder(inputs, Program::Kind::kTakeover);
  if (reload) builder.Device(LoadValues{});
  for (const NodePlan& node : nodes) builder.Compute(node, /*push=*/true);
  return builder.Take();
}

Program BuildInitialPull(const ProgramInputs& inputs) {
  Builder builder(inputs, Program::Kind::kInitialPull);
  builder.PullAllThen(LoadValues{});
  return builder.Take();
}

Program BuildLocalStep(const ProgramInputs& inputs, const std::vector<NodePlan>& nodes) {
  Builder builder(inputs, Program::Kind::kLocalStep);
  for (const NodePlan& node : nodes) {
    builder.Compute(node, /*push=*/false);
    builder.Device(UpdateLocally{node.node});
  }
  return builder.Take();
}

Program BuildExchange(const ProgramInputs& inputs, MicroBatchRange node) {
  Builder builder(inputs, Program::Kind::kExchange);
  builder.PullAllThen(MoveElastically{});
  builder.PushAll(node);
  builder.ClockAll();
  return builder.Take();
}

Program BuildDeltaPush(const ProgramInputs& inputs, MicroBatchRange node) {
  Builder builder(inputs, Program::Kind::kExchange);
  builder.Device(TakeDelta{});
  builder.PushAll(node);
  builder.ClockAll();
  return builder.Take();
}

Program BuildFlush(const ProgramInputs& inputs) {
  Builder builder(inputs, Program::Kind::kFlush);
  builder.PullAll();
  return builder.Take();
}

Program BuildFinalEvaluate(const ProgramInputs& inputs) {
  Builder builder(inputs, Program::Kind::kFinalEvaluate);
  builder.Keys({{}}, /*held_out=*/true);
  builder.PullAllThen(LoadValues{});
  builder.Device(EvaluateModel{});
  return builder.Take();
}

Program BuildSeatStep(const ProgramInputs& inputs, const SeatOutline& outline,
                      MicroBatchRange node) {
  Builder builder(inputs, Program::Kind::kStep);
  builder.PullAllThen(LoadValues{});
  if (inputs.reads_ahead) builder.PrefetchAll();
  builder.RunSeat(outline, /*held_out=*/false, node);
  builder.ClockAll();
  return builder.Take();
}

Program BuildSeatStepAhead(const ProgramInputs& inputs, const SeatOutline& outline,
                           const SeatOutline* ahead, Clock lead, MicroBatchRange node) {
  Builder builder(inputs, Program::Kind::kStep);
  if (ahead != nullptr) {
    builder.SetAhead(lead);
    builder.PullAllThen(LoadValues{});
  }
  builder.SetAhead(0);
  builder.AwaitGrants(outline);
  if (ahead != nullptr) {
    builder.SetAhead(lead);
    builder.RunSeatForward(*ahead);
  }
  builder.SetAhead(0);
  builder.RunSeatBackward(outline, node);
  builder.ClockAll();
  return builder.Take(lead);
}

Program BuildSeatLocalStep(const ProgramInputs& inputs, const SeatOutline& outline,
                           MicroBatchRange node) {
  Builder builder(inputs, Program::Kind::kLocalStep);
  builder.RunSeat(outline, /*held_out=*/false, std::nullopt);
  builder.Device(UpdateLocally{node});
  return builder.Take();
}

Program BuildSeatTakeover(const ProgramInputs& inputs, const SeatOutline& outline,
                          MicroBatchRange node) {
  Builder builder(inputs, Program::Kind::kTakeover);
  builder.Device(LoadValues{});
  builder.RunSeat(outline, /*held_out=*/false, node);
  Program program = builder.Take();
  program.taken_over = node;
  return program;
}

Program BuildSeatFill(const ProgramInputs& inputs, const SeatOutline& outline) {
  Builder builder(inputs, Program::Kind::kFill);
  builder.PullAllThen(LoadValues{});
  builder.RunSeatForward(outline);
  return builder.Take();
}

Program BuildSeatFinalLoad(const ProgramInputs& inputs) {
  Builder builder(inputs, Program::Kind::kFinalEvaluate);
  builder.PullAllThen(LoadValues{});
  return builder.Take();
}

Program BuildSeatEvaluation(const ProgramInputs& inputs, const SeatOutline& outline, bool last) {
  Builder builder(inputs, Program::Kind::kEvaluateBatch);
  builder.RunSeat(outline, /*held_out=*/true, std::nullopt);
  if (last) builder.Device(EvaluateModel{});
  return builder.Take();
}

}  // namespace soapstone::worker
