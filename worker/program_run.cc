#include "worker/program_run.h"

#include <utility>

#include "glog/logging.h"

namespace soapstone::worker {
namespace {

// Instructions whose completion the engine must hear of: what they hand over is sent, or the run
// ends with them, or the device has to wait after them unless what is to be loaded is here.
bool WantsEvent(const Program& program, uint32_t index) {
  const auto& instructions = program.instructions;
  const OpCode op = instructions[index].op;
  if (op == OpCode::kForward && index + 1 < instructions.size()) {
    return instructions[index + 1].op == OpCode::kLoad;
  }
  return op == OpCode::kCollect || op == OpCode::kUpdate || op == OpCode::kEvaluate ||
         op == OpCode::kKeys;
}

}  // namespace

ProgramRun::ProgramRun(std::shared_ptr<const Program> program, uint64_t id, Clocks clocks,
                       uint32_t shards)
    : id_(id), clocks_(clocks), ready_(std::move(program)), pushes_(shards) {}

DeviceCommand ProgramRun::CommandFor(uint32_t index) const {
  const Instruction& instruction = this->instruction(index);
  DeviceCommand command = {.run = id_,
                           .instruction = index,
                           .what = {.op = instruction.op,
                                    .index = instruction.index,
                                    .shard = instruction.shard,
                                    .all = instruction.all,
                                    .bucket = instruction.bucket,
                                    .node = instruction.node,
                                    .part = instruction.part},
                           .wants_event = WantsEvent(program(), index),
                           .clock = clocks_.step,
                           .first_part = instruction.first_part,
                           .last_part = instruction.last_part};
  if (instruction.op == OpCode::kKeys) {
    const std::vector<Instruction>& instructions = program().instructions;
    const bool more =
        index + 1 < instructions.size() && instructions[index + 1].op == OpCode::kKeys;
    command.first_part = index == 0;
    command.last_part = !more;
  }
  return command;
}

wire::Message ProgramRun::MessageFor(uint32_t index) {
  const Instruction& instruction = this->instruction(index);
  wire::Message message;
  message.clock = clocks_.shard;
  switch (instruction.op) {
    case OpCode::kPull: {
      const std::span<const Buffer> keys = KeysOf(instruction.shard);
      message.type = wire::MessageType::kPull;
      message.final = clocks_.final;
      message.payload.assign(keys.begin(), keys.end());
      break;
    }
    case OpCode::kPrefetch:
      message.type = wire::MessageType::kPull;
      message.clock = clocks_.shard + 1;
      break;
    case OpCode::kPush: {
      const auto handed = collected_.find(instruction.deps.front());
      CHECK(handed != collected_.end()) << "a push of what the device has not handed over";
      message.type = wire::MessageType::kPush;
      message.bucket = instruction.bucket;
      message.leaves = instruction.node;
      message.samples = handed->second.samples;
      message.payload = std::move(handed->second.frames);
      collected_.erase(handed);
      ++pushes_[Index(instruction.shard)];
      break;
    }
    default:
      CHECK(instruction.op == OpCode::kClock) << "no message";
      message.type = wire::MessageType::kClock;
      message.clock = clocks_.shard + 1;
      message.pushes = pushes_[Index(instruction.shard)];
      break;
  }
  return message;
}

void ProgramRun::OnEvent(DeviceEvent event) {
  const uint32_t index = event.instruction;
  const OpCode op = instruction(index).op;
  if (op == OpCode::kKeys) {
    keys_ = std::move(event.frames);
  } else if (op == OpCode::kCollect) {
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
  for (const uint32_t pull : program().pulls) {
    if (!satisfied(pull)) continue;
    ready_.Unsatisfy(pull);
    taken_back.push_back(instruction(pull).shard);
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
