// DynamicGate: the gate of dssp (Zhao et al., "Dynamic stale synchronous parallel distributed
// training for deep learning", ICDCS 2019). A read at clock c with gap = c - min applied passes
//     gap <= lower                     always
//     lower < gap <= upper             while the reader has credit left
//     the fastest, without credit      asks the controller for credit r, and passes if r > 0
//     else                             waits until gap <= lower
// The controller predicts the next clocks of the reader p and the slowest q from their last
// intervals I and J, and lets p make that r more steps after which it would wait least for q:
//     r = argmin over r, k in [0, upper - lower] of |A_q + (k+1) J - (A_p + r I)|, the smallest r
// A: time of the last clock. Each shard decides by what it sees itself.
//
// Invariants: no read has gap > upper. The decision is a function of recorded times alone.
#pragma once

#include <map>
#include <utility>

#include "base/memory/state_image.h"
#include "consistency/action.h"
#include "consistency/clock_table.h"
#include "consistency/traits.h"

namespace soapstone::consistency {

class DynamicGate {
 public:
  explicit DynamicGate(const DynamicTraits& traits) : lower_(traits.lower), upper_(traits.upper) {}

  Actions OnJoin(WorkerId worker, Clock clock);
  Actions OnLeave(WorkerId worker);
  Actions OnPush(const PushEvent& push);
  Actions OnClock(const ClockEvent& event);
  Actions OnPull(const PullEvent& pull);
  Actions OnDrain() { return {}; }

  const ClockTable& clocks() const { return clocks_; }
  Clock Frontier() const { return clocks_.Min(); }

  // When the newest clock of a member came; -1: none.
  Nanos Newest() const;

  friend bool operator==(const DynamicGate&, const DynamicGate&) = default;
  void AddTo(Fingerprint* f) const;
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.clocks_, self.paces_, self.parked_);
  }

 private:
  // Of one worker's clocks: when the last two came, and steps beyond `lower` still granted.
  struct Pace {
    Nanos latest = -1;
    Nanos before = -1;
    Clock credit = 0;
    Clock admitted = kNoClock;  // upon credit, last
    template <class Self, class Visitor>
    static void Visit(Self& self, Visitor&& visit) {
      visit(self.latest, self.before, self.credit, self.admitted);
    }
    friend bool operator==(const Pace&, const Pace&) = default;
  };

  bool Admits(WorkerId worker, Clock clock);
  Clock Credit(const Pace& reader) const;
  const Pace* Slowest() const;
  void ReleaseAdmitted(Actions* actions);

  Clock lower_;
  Clock upper_;
  ClockTable clocks_;
  std::map<WorkerId, Pace> paces_;
  std::map<std::pair<Clock, WorkerId>, Ticket> parked_;
};

}  // namespace soapstone::consistency
