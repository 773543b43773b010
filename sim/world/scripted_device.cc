#include "sim/world/scripted_device.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace soapstone::sim {
namespace {

// With the tree a gradient depends on its micro-batches alone, else on who computed it as well.
int64_t DeltaFor(const ActorFactory& factory, uint32_t process, Clock clock,
                 const worker::CollectBucket& what) {
  if (!factory.policy().fixed_tree) {
    return MicroBatchDelta(clock, what.shard, what.bucket, process);
  }
  int64_t delta = 0;
  for (uint32_t micro_batch = what.node.begin; micro_batch < what.node.end; ++micro_batch) {
    delta += MicroBatchDelta(clock, what.shard, what.bucket, micro_batch);
  }
  return delta;
}

}  // namespace

int64_t MicroBatchDelta(Clock clock, ShardId shard, BucketId bucket, uint32_t micro_batch) {
  const CounterRandom random(Index(shard), RandomUse::kTest, Index(bucket));
  const uint64_t at = static_cast<uint64_t>(clock) << 20 | micro_batch;
  return static_cast<int64_t>(random.Bits(at) >> 16);
}

ScriptedDevice::Outcome ScriptedDevice::Run(const ActorFactory& factory, const Options& options) {
  Outcome outcome;
  while (!commands_.empty() && !outcome.event.has_value()) {
    const worker::DeviceCommand command = std::move(commands_.front());
    commands_.erase(commands_.begin());
    Load(factory, command, options.reloads);
    if (!outcome.violation.has_value()) {
      outcome.violation = CheckLoaded(factory, options.rank, command);
    }
    if (!command.wants_event) continue;
    outcome.event = {.run = command.run, .instruction = command.instruction};
    if (const auto* collect = std::get_if<worker::CollectBucket>(&command.what)) {
      const int64_t delta = DeltaFor(factory, options.process, command.clock, *collect);
      outcome.event->frames = {Buffer::CopyOf(&delta, sizeof(delta))};
      outcome.event->samples = collect->node.size();
    }
  }
  return outcome;
}

void ScriptedDevice::Load(const ActorFactory& factory, const worker::DeviceCommand& command,
                          bool reloads) {
  loaded_.resize(factory.worker_layout().shard_count(), kNoClock);
  const auto* load = std::get_if<worker::LoadCommand>(&command.what);
  if (load == nullptr) return;
  if (load->shard.has_value()) {
    loaded_[Index(*load->shard)] = command.clock;
  } else if (reloads) {
    loaded_.assign(loaded_.size(), command.clock);
  }
}

// An operator's parameters are those of its stage.
std::optional<std::string> ScriptedDevice::CheckLoaded(const ActorFactory& factory, WorkerId rank,
                                                       const worker::DeviceCommand& command) const {
  if (factory.policy().keeps_parameters()) return std::nullopt;
  uint32_t op = 0;
  MicroBatchRange part;
  if (const auto* forward = std::get_if<worker::RunForward>(&command.what)) {
    op = forward->op;
    part = forward->part;
  } else if (const auto* backward = std::get_if<worker::RunBackward>(&command.what)) {
    op = backward->op;
    part = backward->part;
  } else {
    return std::nullopt;
  }
  for (uint32_t k = 0; k < loaded_.size(); ++k) {
    if (factory.worker_layout().transfer_stage(ShardId{k}) != op) continue;
    if (loaded_[k] == command.clock) continue;
    return absl::StrCat("B1: worker ", Index(rank), " computes micro-batches [", part.begin, ", ",
                        part.end, ") of clock ", command.clock, " with the parameters of clock ",
                        loaded_[k], " of shard ", k);
  }
  return std::nullopt;
}

void ScriptedDevice::AddTo(Fingerprint* f) const {
  for (const Clock loaded : loaded_) f->Add(loaded);
  f->Add(commands_.size());
  for (const worker::DeviceCommand& command : commands_) {
    f->Add(command.run);
    f->Add(command.instruction);
  }
}

}  // namespace soapstone::sim
