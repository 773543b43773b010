// BoundedGate: the gate of ssp, and without a bound that of async and asynchronous easgd. Updates
// are applied on arrival; a read at clock c waits until
//     min over members u of applied[u] >= c - s            (Ho et al., NIPS 2013, rule a)
// applied[u] counts clocks whose updates this shard has applied: never clocks merely issued.
//
// Invariants: the slowest member is never parked (its own applied clock is its clock, so
// c - s <= min). A parked pull is released by the event that raises the minimum: a clock, or a
// leave.
#pragma once

#include <map>
#include <utility>

#include "consistency/action.h"
#include "consistency/clock_table.h"
#include "consistency/traits.h"

namespace soapstone::consistency {

class BoundedGate {
 public:
  // `bound` = s; kClockMax: no gate.
  explicit BoundedGate(const BoundedTraits& traits) : bound_(traits.bound) {}

  Actions OnJoin(WorkerId worker, Clock clock);
  Actions OnLeave(WorkerId worker);
  Actions OnPush(const PushEvent& push);
  Actions OnClock(const ClockEvent& event);
  Actions OnDrain() { return {}; }
  Actions OnPull(const PullEvent& pull);

  const ClockTable& clocks() const { return clocks_; }
  Clock Frontier() const { return clocks_.Min(); }

  friend bool operator==(const BoundedGate&, const BoundedGate&) = default;
  void AddTo(Fingerprint* f) const;
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.clocks_, self.parked_);
  }

 private:
  bool Admits(Clock clock) const { return clocks_.Min() >= clock - bound_; }
  void ReleaseAdmitted(Actions* actions);

  Clock bound_;
  ClockTable clocks_;
  std::map<std::pair<Clock, WorkerId>, Ticket> parked_;  // one a worker at most
};

}  // namespace soapstone::consistency
