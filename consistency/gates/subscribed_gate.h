// SubscribedGate: the gate of essp. The rule of ssp (bounded_gate.h), but nobody asks: a worker
// that has pulled once is sent the values for its next clock as soon as the gate admits it, and
// again, fresher, whenever the least clock advances (Dai et al., "High-performance distributed ML
// at scale through parameter server consistency models", AAAI 2015). Same bound; the lag that is
// observed is no greater, since what a worker waits with is replaced until it begins.
//
// Invariant: a worker that waits at this shard has been sent the values of the present least clock
// unless the bound forbids it.
#pragma once

#include <map>
#include <optional>

#include "base/memory/state_image.h"
#include "consistency/action.h"
#include "consistency/clock_table.h"
#include "consistency/traits.h"

namespace soapstone::consistency {

class SubscribedGate {
 public:
  // `bound` = s.
  explicit SubscribedGate(const SubscribedTraits& traits) : bound_(traits.bound) {}

  Actions OnJoin(WorkerId worker, Clock clock);
  Actions OnLeave(WorkerId worker);
  Actions OnPush(const PushEvent& push);
  Actions OnClock(const ClockEvent& event);
  Actions OnPull(const PullEvent& pull);
  Actions OnDrain() { return {}; }

  const ClockTable& clocks() const { return clocks_; }
  Clock Frontier() const { return clocks_.Min(); }

  friend bool operator==(const SubscribedGate&, const SubscribedGate&) = default;
  void AddTo(Fingerprint* f) const;
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.clocks_, self.readers_);
  }

 private:
  struct Reader {
    Clock clock = 0;             // it will use what it gets at this clock
    std::optional<Ticket> pull;  // parked
    template <class Self, class Visitor>
    static void Visit(Self& self, Visitor&& visit) {
      visit(self.clock, self.pull);
    }
    friend bool operator==(const Reader&, const Reader&) = default;
  };

  bool Admits(Clock clock) const { return clocks_.Min() >= clock - bound_; }
  void Serve(WorkerId worker, Reader* reader, Actions* actions) const;
  void ServeAll(Actions* actions);

  Clock bound_;
  ClockTable clocks_;
  std::map<WorkerId, Reader> readers_;
};

}  // namespace soapstone::consistency
