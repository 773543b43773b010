#include "worker/program_run.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "glog/logging.h"

namespace soapstone::worker {
namespace {

// Instructions whose completion the engine must hear of: what they hand over is sent, or the run
// ends with them, or the device has to wait after them unless what is to be loaded is here.
struct IsHeardOf {
  bool before_load;  // a LoadValues is next in the program
  bool before_wait;  // a TakeBlock is next on the device, or nothing

  bool operator()(const FindKeys&) const { return true; }
  bool operator()(const LoadValues&) const { return false; }
  bool operator()(const RunForward&) const { return before_load; }
  bool operator()(const RunBackward&) const { return false; }
  bool operator()(const CollectBucket&) const { return true; }
  bool operator()(const UpdateLocally&) const { return true; }
  bool operator()(const MoveElastically&) const { return false; }
  bool operator()(const TakeDelta&) const { return false; }
  bool operator()(const EvaluateModel&) const { return true; }
  bool operator()(const BeginBatch&) const { return before_wait; }
  bool operator()(const RunSection&) const { return before_wait; }
  bool operator()(const TakeBlock&) const { return before_wait; }
  bool operator()(const GiveBlock&) const { return true; }
};

// Of those that read parameters the parameters are the engine's to add.
struct WorkOf {
  DeviceWork operator()(const LoadValues& load) const { return LoadCommand{.shard = load.shard}; }
  DeviceWork operator()(const MoveElastically&) const { return ElasticCommand{}; }
  DeviceWork operator()(const TakeBlock& take) const {
    return TakeCommand{.index = take.index, .number = take.number};
  }
  template <typename Same>
  DeviceWork operator()(const Same& what) const {
    return what;
  }
};

}  // namespace

ProgramRun::ProgramRun(std::shared_ptr<const Program> program, uint64_t id, Clocks clocks,
                       uint32_t shards)
    : id_(id), clocks_(clocks), ready_(std::move(program)), pushes_(shards) {}

DeviceCommand ProgramRun::CommandFor(uint32_t index) const {
  const auto* what = std::get_if<DeviceInstruction>(&instruction(index).what);
  CHECK(what != nullptr) << "no command";
  const std::vector<Instruction>& instructions = program().instructions;
  const bool before_load =
      index + 1 < instructions.size() && As<LoadValues>(instructions[index + 1]) != nullptr;
  return {.run = id_,
          .instruction = index,
          .what = std::visit(WorkOf{}, *what),
          .wants_event = std::visit(IsHeardOf{before_load, WaitsBehind(index)}, *what),
          .clock = ClockOf(index),
          .taken_over = program().taken_over};
}

bool ProgramRun::WaitsBehind(uint32_t index) const {
  const std::vector<uint32_t>& device = program().device;
  const auto next = std::upper_bound(device.begin(), device.end(), index);
  return next == device.end() || As<TakeBlock>(instruction(*next)) != nullptr;
}

std::optional<std::pair<Clock, uint32_t>> ProgramRun::WaitsFor(uint32_t index) const {
  const std::vector<uint32_t>& device = program().device;
  const auto next = std::upper_bound(device.begin(), device.end(), index);
  if (next == device.end() || issued(*next)) return std::nullopt;
  const auto* take = As<TakeBlock>(instruction(*next));
  return take != nullptr ? std::optional(std::pair(ClockOf(*next), take->number)) : std::nullopt;
}

wire::Message ProgramRun::MessageFor(uint32_t index) {
  const Instruction& instruction = this->instruction(index);
  const auto* what = std::get_if<NetworkInstruction>(&instruction.what);
  CHECK(what != nullptr) << "no message";
  wire::Message message;
  message.clock = clocks_.shard + instruction.ahead;
  std::visit([&](const auto& network) { Make(network, instruction, &message); }, *what);
  return message;
}

void ProgramRun::Make(const SendPull& pull, const Instruction&, wire::Message* message) {
  const std::span<const Buffer> keys = KeysOf(pull.shard);
  message->type = wire::MessageType::kPull;
  message->body = wire::Pull{.final = clocks_.final};
  message->payload.assign(keys.begin(), keys.end());
}

void ProgramRun::Make(const SendPush& push, const Instruction& instruction,
                      wire::Message* message) {
  const auto handed = collected_.find(instruction.deps.front());
  CHECK(handed != collected_.end()) << "a push of what the device has not handed over";
  message->type = wire::MessageType::kPush;
  message->body = wire::Push{
      .bucket = push.bucket, .micro_batches = push.node, .samples = handed->second.samples};
  message->payload = std::move(handed->second.frames);
  collected_.erase(handed);
  ++pushes_[Index(push.shard)];
}

void ProgramRun::Make(const SendClock& clock, const Instruction&, wire::Message* message) {
  message->type = wire::MessageType::kClock;
  message->clock = clocks_.shard + 1;
  message->body = wire::Completion{.pushes = pushes_[Index(clock.shard)]};
}

void ProgramRun::Make(const SendPrefetch&, const Instruction&, wire::Message* message) {
  message->type = wire::MessageType::kPull;
  message->clock = clocks_.shard + 1;
  message->body = wire::Pull{};
}

void ProgramRun::Make(const SendBlock& block, const Instruction& instruction,
                      wire::Message* message) {
  message->type = wire::MessageType::kBlock;
  message->clock = clocks_.step + instruction.ahead;
  message->body = wire::Block{.number = block.number, .micro_batches = program().taken_over};
  if (instruction.deps.empty()) return;
  const auto handed = collected_.find(instruction.deps.front());
  CHECK(handed != collected_.end()) << "a block that the device has not handed over";
  message->payload = std::move(handed->second.frames);
  collected_.erase(handed);
}

void ProgramRun::Make(const ReceiveBlock&, const Instruction&, wire::Message*) {
  LOG(FATAL) << "nothing is sent to receive";
}

std::optional<uint32_t> ProgramRun::AwaitedBlock(Clock clock, uint32_t number) const {
  const auto at = program().receives.find(number);
  if (at == program().receives.end() || ClockOf(at->second) != clock || !issued(at->second) ||
      satisfied(at->second)) {
    return std::nullopt;
  }
  return at->second;
}

void ProgramRun::OnEvent(DeviceEvent event) {
  const uint32_t index = event.instruction;
  if (As<FindKeys>(instruction(index))) {
    keys_ = std::move(event.frames);
  } else if (As<CollectBucket>(instruction(index)) || As<GiveBlock>(instruction(index))) {
    collected_[index] = std::move(event);
  }
  Satisfy(index);
}

bool ProgramRun::IsOutstanding(ShardId shard) const {
  if (program().pulls.empty()) return false;
  const uint32_t pull = program().pulls[Index(shard)];
  return issued(pull) && !satisfied(pull);
}

bool ProgramRun::IsAnswered(ShardId shard) const {
  return !program().pulls.empty() && satisfied(program().pulls[Index(shard)]);
}

std::span<const Buffer> ProgramRun::KeysOf(ShardId shard) const {
  const size_t tables = keys_.size() / pushes_.size();
  return {keys_.data() + Index(shard) * tables, tables};
}

std::vector<ShardId> ProgramRun::FastForward(Clock clock) {
  clocks_.step = clocks_.shard = clock;
  fast_forwarded_ = true;
  std::vector<ShardId> taken_back;
  const std::vector<uint32_t>& pulls = program().pulls;
  for (uint32_t shard = 0; shard < pulls.size(); ++shard) {
    if (!satisfied(pulls[shard])) continue;
    ready_.Unsatisfy(pulls[shard]);
    taken_back.push_back(ShardId{shard});
  }
  return taken_back;
}

void ProgramRun::Rewind(uint64_t id) {
  id_ = id;
  ready_.RewindDevice();
}

void ProgramRun::AddTo(Fingerprint* f) const {
  f->Add(id_);
  f->Add(clocks_.step);
  f->Add(program().kind);
  f->Add(fast_forwarded_);
  ready_.AddTo(f);
  for (const uint32_t pushes : pushes_) f->Add(pushes);
}

}  // namespace soapstone::worker
