// Ledger: what a shard's reads and updates show of its policy's guarantee, worker by worker. The
// shard tells it what arrives, what goes into the store and what is read; it keeps a version vector
// of its own from that, never the gate's, so that an error in the gate cannot excuse itself. Every
// read and every update is counted by lag and staleness, and every read is held to the guarantee.
//
// Version vector: applied(w) = the least clock of which worker w may have an update that is not in
// the store = min(clocks that w has completed here, clock of its oldest push in hand).
// Asserted, as far as the guarantee says so:
//   a read of worker w at clock c   c - min over members of applied <= read_lag_max
//                                   snapshot reads: and no update of clock c or later is in
//                                   own writes: and applied(w) >= c
//   worker w completes clock c      c - min over members of applied <= clock_gap_max
//                                   (never less than its gap to the slowest)
// The unseen mass of the value policies is not asserted here. A value: copied with its shard.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/histogram.h"
#include "base/ids.h"
#include "consistency/clock_table.h"
#include "consistency/traits.h"

namespace soapstone::server {

// A guarantee broken.
struct Violation {
  enum class Kind : uint8_t { kReadLag, kSnapshot, kOwnWrites, kClockGap };
  Kind kind{};
  ShardId shard{};
  WorkerId worker{};
  Clock clock = 0;  // of the read; completed (kClockGap)
  Clock seen = 0;   // the lag or the gap; kSnapshot, kOwnWrites: the clock of that update
  Clock bound = 0;  // of the lag or the gap
  friend bool operator==(const Violation&, const Violation&) = default;
  std::string ToString() const;
};

class Ledger {
 public:
  // Of one worker at this shard.
  struct Row {
    Histogram read_lags;    // reads by lag
    Histogram stalenesses;  // updates by gradient staleness
    uint64_t violations = 0;
    friend bool operator==(const Row&, const Row&) = default;
  };

  Ledger(ShardId shard, const consistency::Guarantee& guarantee)
      : shard_(shard), guarantee_(guarantee) {}

  // A member takes part from `clock` on; called again to move it there. Is a member no more.
  void OnMember(WorkerId worker, Clock clock);
  void OnGone(WorkerId worker);
  // All pushes of the worker's clocks below `completed` have been taken.
  void OnClock(WorkerId worker, Clock completed);
  // A push of `clock` is in hand; then it is in the store, or was dropped or refused.
  void OnTaken(WorkerId worker, Clock clock);
  void OnApplied(WorkerId worker, Clock clock, uint64_t staleness);
  void OnDropped(WorkerId worker, Clock clock);
  // The values now are sent to `worker`, which will use them at `clock`.
  void OnRead(WorkerId worker, Clock clock);

  // By worker index, up to the last that has read or pushed. Rows outlive memberships.
  const std::vector<Row>& rows() const { return rows_; }
  Row Total() const;
  const std::optional<Violation>& first_violation() const { return first_violation_; }

 private:
  struct Member {
    Clock completed = kNoClock;                         // kNoClock: none
    std::vector<std::pair<Clock, uint32_t>> in_hand{};  // pushes by clock, ascending
  };

  Row& RowOf(WorkerId worker);
  Member& MemberOf(WorkerId worker);
  // A push of `clock` is in hand no more.
  void Forget(WorkerId worker, Clock clock);
  void Refresh(WorkerId worker);  // applied_, after a change of its Member
  void Break(const Violation& violation);

  ShardId shard_;
  consistency::Guarantee guarantee_;
  consistency::ClockTable applied_;
  std::vector<Member> members_;  // by worker index
  std::vector<Row> rows_;
  Clock newest_ = kNoClock;  // greatest clock of any update in the store
  std::optional<Violation> first_violation_;
};

}  // namespace soapstone::server
