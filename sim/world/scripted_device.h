// ScriptedDevice: a worker's device in a world: it runs an engine's commands, whose gradients are
// integers that say what they are gradients of, and checks that an operator is computed with the
// parameters of its own clock. A value, of World's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "sim/actors.h"
#include "worker/device/device.h"

namespace soapstone::sim {

// One micro-batch's gradient as an integer: a function of what a gradient is a function of. Sums
// are exact.
int64_t MicroBatchDelta(Clock clock, ShardId shard, BucketId bucket, uint32_t micro_batch);

// Invariant: B1, what it computes at a clock it computes with the parameters of that clock, of each
// shard of the operator's transfer stage; Run says where that is broken.
class ScriptedDevice {
 public:
  struct Options {
    uint32_t process = 0;  // that computes: without a fixed tree a gradient depends on it too
    WorkerId rank{};       // for what is said
    bool reloads = true;   // false, a mutant: does not load the parameters of a former clock again
  };
  struct Outcome {
    std::optional<worker::DeviceEvent> event;
    std::optional<std::string> violation;  // the first
  };
  // Runs commands up to the first that is to be answered.
  Outcome Run(const ActorFactory& factory, const Options& options);

  // Where the engine puts them.
  std::vector<worker::DeviceCommand>* commands() { return &commands_; }
  bool idle() const { return commands_.empty(); }
  void Stop() { commands_.clear(); }

  void AddTo(Fingerprint* f) const;

 private:
  void Load(const ActorFactory& factory, const worker::DeviceCommand& command, bool reloads);
  std::optional<std::string> CheckLoaded(const ActorFactory& factory, WorkerId rank,
                                         const worker::DeviceCommand& command) const;

  std::vector<Clock> loaded_;                    // by shard: whose parameters it holds
  std::vector<worker::DeviceCommand> commands_;  // not yet run
};

}  // namespace soapstone::sim
