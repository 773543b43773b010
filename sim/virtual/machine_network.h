// MachineNetwork: when a message arrives on the links of a machine file, which messages share. A
// worker is the device of its number; shards are on servers, or where workers keep the parameters
// on their devices. Times are those of the planner (scheduler/planner/blocks/comm_block.h): with t
// when a message is sent, o(l) the latencies before link l, q(l) those from there to its end, b(l)
// how long the message occupies it, and f(l) when it is free,
//     s(l) = max(t + o(l), f(l)),   f'(l) = s(l) + b(l),   arrives = max over l of f'(l) + q(l)
// What has no payload waits its turn, and occupies nothing: a plan prices no such messages.
// What is within a process, and the scheduler's words, cost nothing. A value.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/ids.h"
#include "strategy/machine.h"
#include "wire/message.h"

namespace soapstone::sim {

class MachineNetwork {
 public:
  // Shard k is on server k / sets; owned: beside worker k / sets.
  struct Shards {
    uint32_t sets = 1;
    bool owned = false;
  };
  // machine: outlives it. It has a device for each worker, and a server for each that keeps
  // parameters.
  MachineNetwork(const planner::Machine* machine, Shards shards)
      : machine_(machine), shards_(shards), free_at_(machine->links().size(), 0) {}

  // payload: bytes. limit_mbps: what each link on the way carries at most at present; 0: no limit.
  Nanos Arrival(Nanos now, wire::Address from, wire::Address to, uint64_t payload,
                double limit_mbps);

  bool owned() const { return shards_.owned; }
  // The server, or the worker, that keeps the shard.
  uint32_t HostOf(uint32_t shard) const { return shard / shards_.sets; }
  // What an update takes there: a server adds what is pushed as it comes; an owner, once all is
  // here, reads gradient and parameter and writes the parameter, and adds what others have pushed.
  // (scheduler/planner/blocks/sync_block.h)
  Nanos ServerTime(uint32_t shard, uint64_t pushed) const;
  Nanos OwnerTime(uint32_t shard, uint64_t held, uint64_t received) const;

 private:
  absl::Span<const uint32_t> PathOf(wire::Address from, wire::Address to) const;

  const planner::Machine* machine_;
  Shards shards_;
  std::vector<Nanos> free_at_;  // by link
};

}  // namespace soapstone::sim
