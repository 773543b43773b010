// SharedDevice: when a worker's device does what in virtual time, where it keeps parameters too: it
// runs the worker's commands, and applies updates to the shards beside it. One thing at a time: the
// commands in their order, part by part, and before the next part the updates that were ready
// before the device was free, as a planner's timeline has it (timeline.h: a queue serves by what
// was ready first). A value; knows no messages.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "worker/device/device.h"

namespace soapstone::sim {

class SharedDevice {
 public:
  struct Work {
    Nanos cost = 0;
    Nanos ready = 0;                            // of an update
    std::optional<uint32_t> shard;              // to which an update is applied
    Clock clock = 0;                            // of a command
    std::optional<worker::DeviceEvent> answer;  // of one, with its last part, where it has one
  };
  void AddPart(Work part) { parts_.push_back(std::move(part)); }
  // An update of the shard is ready to be applied.
  void AddUpdate(Nanos now, Nanos cost, uint32_t shard) {
    updates_.push_back({.cost = cost, .ready = now, .shard = shard});
  }

  // What is begun now; null: it is busy, or there is nothing.
  const Work* Begin(Nanos now) {
    if (running_.has_value()) return nullptr;
    const bool update = !updates_.empty() && (parts_.empty() || updates_.front().ready < now);
    std::deque<Work>& from = update ? updates_ : parts_;
    if (from.empty()) return nullptr;
    running_ = std::move(from.front());
    from.pop_front();
    return &*running_;
  }
  // What was begun has ended. REQUIRES: something was.
  Work End() { return *std::exchange(running_, std::nullopt); }

 private:
  std::deque<Work> parts_, updates_;
  std::optional<Work> running_;
};

}  // namespace soapstone::sim
