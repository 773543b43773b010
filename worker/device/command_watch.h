// CommandWatch: whether a device goes on. It is told when the device begins and ends a command, and
// says of the one in hand that it takes too long: longer than the floor, and than so many times the
// median of what this instruction took before. The shell that owns the device asks it; it knows no
// clock, and no thread.
//
//   slow  after max(floor, 8 m)
//   hung  after max(4 floor, 32 m); 12 floor while m is not known, so with fewer than three before
//
// The evaluation takes as long as the held-out data is large, and comes once: it is never hung here
// (the scheduler waits for it no longer than its own time limit). Time in which nobody looked, as
// when the whole process was suspended, is nobody's.
// A value; the caller locks.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "base/ids.h"
#include "worker/device/device.h"

namespace soapstone::worker {

// Commands of one kind take about as long each time.
struct WorkKind {
  std::string_view name;       // "forward"; a literal
  std::optional<uint32_t> op;  // of passes: the operator
  friend auto operator<=>(const WorkKind&, const WorkKind&) = default;
};
WorkKind KindOf(const DeviceWork& work);

struct Overdue {
  WorkKind what;         // in hand
  bool taken = true;     // false: commands wait, and the device takes none; `what` is unset
  bool hung = false;     // else slow
  Nanos for_ns = 0;      // it is in hand
  Nanos median_ns = -1;  // of those before; -1: not known
};

class CommandWatch {
 public:
  // REQUIRES: floor_ns > 0; look_every_ns > 0: Look is called so often.
  CommandWatch(Nanos floor_ns, Nanos look_every_ns)
      : floor_ns_(floor_ns), look_every_ns_(look_every_ns) {}

  void Begin(Nanos now, const DeviceWork& work);
  void End(Nanos now);
  // The command in hand rests, as a straggler model told it to: that is not its work.
  void BeginRest(Nanos now) { rest_since_ = now; }
  void EndRest(Nanos now);
  // `waiting`: commands that the device has not ended. Slow is said once of a command, hung as
  // often as it is asked.
  std::optional<Overdue> Look(Nanos now, uint64_t waiting);

 private:
  static constexpr size_t kKept = 9;
  static constexpr size_t kKnown = 3;  // durations, and there is a median
  struct Durations {
    std::array<Nanos, kKept> last{};
    size_t count = 0;  // ever
  };
  struct InHand {
    WorkKind kind;
    bool evaluates = false;
  };
  Nanos MedianOf(const WorkKind& kind) const;  // -1: not known

  Nanos floor_ns_;
  Nanos look_every_ns_;
  std::map<WorkKind, Durations> before_;  // bounded: by what the model has of operators
  std::optional<InHand> in_hand_;
  Nanos since_ = 0;        // its begin, or when commands began to wait
  Nanos left_out_ns_ = 0;  // of that time: rests, and suspensions
  std::optional<Nanos> rest_since_;
  Nanos looked_ = -1;
  bool said_slow_ = false;
};

}  // namespace soapstone::worker
