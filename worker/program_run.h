// ProgramRun: one execution of a step program, whatever its kind. It says which instruction goes
// next, makes of an instruction the device's command or the message, and keeps what the device has
// handed over until that is sent. The engine calls it, carries out what it returns, and adds to
// commands and messages what it must not know: policy, roster, and the parameters' values.
//
// Invariants
//  1. An instruction goes once what it depends on is satisfied, and once only; device instructions
//     go in program order, and once more after Rewind (worker/program/readiness.h).
//  2. A push sends what the device handed over for it, and nothing of that is kept afterwards.
//  3. A clock tells how many pushes its shard was sent by this run.
//  4. What the device answers to commands from before a Rewind belongs to no run: the id is new.
// A value: a copy goes on by itself. The program is shared, and is not changed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "base/memory/buffer.h"
#include "wire/message.h"
#include "worker/device/device.h"
#include "worker/program/program.h"
#include "worker/program/readiness.h"

namespace soapstone::worker {

class ProgramRun {
 public:
  // When a run is: as the worker counts, and as shards count.
  struct Clocks {
    Clock step = 0;      // local step: data and learning rate
    Clock shard = 0;     // the same, or the exchange's number
    bool final = false;  // it reads the parameters after the last clock
  };

  // REQUIRES: a program of the builders; `id` is that of no other run of the engine.
  ProgramRun(std::shared_ptr<const Program> program, uint64_t id, Clocks clocks, uint32_t shards);

  const Program& program() const { return ready_.program(); }
  const Instruction& instruction(uint32_t index) const { return program().instructions[index]; }
  uint64_t id() const { return id_; }
  Clock clock() const { return clocks_.step; }
  Clock shard_clock() const { return clocks_.shard; }
  bool final() const { return clocks_.final; }
  // As shards count, that it reads; and of an instruction, as the worker counts.
  Clock read_clock() const { return clocks_.shard + program().lead; }
  Clock ClockOf(uint32_t index) const { return clocks_.step + instruction(index).ahead; }
  // Since it began, to a later clock.
  bool fast_forwarded() const { return fast_forwarded_; }

  // The instruction that goes now; none: nothing may before more is satisfied.
  std::optional<uint32_t> Next() { return ready_.Next(); }
  void Satisfy(uint32_t index) { ready_.Satisfy(index); }
  bool issued(uint32_t index) const { return ready_.issued(index); }
  bool satisfied(uint32_t index) const { return ready_.satisfied(index); }
  bool complete() const { return ready_.complete(); }

  // The command of a device instruction, without parameters and what the policy says of it.
  // REQUIRES: it is one.
  DeviceCommand CommandFor(uint32_t index) const;
  // The message of a network instruction: its type, clock, bucket and payload. A push is made once.
  // REQUIRES: it is one.
  wire::Message MessageFor(uint32_t index);
  // The device's answer to an instruction that is not satisfied: it is now.
  void OnEvent(DeviceEvent event);

  // The pull of `shard` has gone, and its answer has not come.
  bool IsOutstanding(ShardId shard) const;
  // Its answer has come.
  bool IsAnswered(ShardId shard) const;
  // REQUIRES: IsOutstanding.
  void Answer(ShardId shard) { Satisfy(program().pulls[Index(shard)]); }
  // The keys of rows that the pull of `shard` asks for: a buffer a table, or none at all. Valid
  // until the device hands over others.
  std::span<const Buffer> KeysOf(ShardId shard) const;

  // The clock and number of what the device waits for that has done `index`, where it is a block
  // that is not here.
  std::optional<std::pair<Clock, uint32_t>> WaitsFor(uint32_t index) const;
  // The instruction that waits for this block of the team's at that clock; none: nobody does, or
  // not yet.
  std::optional<uint32_t> AwaitedBlock(Clock clock, uint32_t number) const;

  // It goes on from a later clock. Returns the shards whose answers, of the former clock, do not
  // count any more, ascending: their pulls are outstanding again.
  std::vector<ShardId> FastForward(Clock clock);
  // The device begins anew, under another id.
  void Rewind(uint64_t id);

  void AddTo(Fingerprint* f) const;

 private:
  // Behind it the device may have to wait, or has nothing to do.
  bool WaitsBehind(uint32_t index) const;
  // Makes of `message`, which has the run's clock, that of the instruction.
  void Make(const SendPull& pull, const Instruction& instruction, wire::Message* message);
  void Make(const SendPush& push, const Instruction& instruction, wire::Message* message);
  void Make(const SendClock& clock, const Instruction& instruction, wire::Message* message);
  void Make(const SendPrefetch& ahead, const Instruction& instruction, wire::Message* message);
  void Make(const SendBlock& block, const Instruction& instruction, wire::Message* message);
  void Make(const ReceiveBlock& block, const Instruction& instruction, wire::Message* message);

  uint64_t id_;
  Clocks clocks_;
  Readiness ready_;
  bool fast_forwarded_ = false;
  Buffers keys_;                               // that pulls ask for: by shard, then by table
  std::map<uint32_t, DeviceEvent> collected_;  // by instruction: handed over and not sent yet
  std::vector<uint32_t> pushes_;               // sent so far, by shard
};

}  // namespace soapstone::worker
