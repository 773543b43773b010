// ValueGate: value-bounded consistency, the weak form that needs no global knowledge (VAP; Dai et
// al., AAAI 2015): per worker w and shard, the mass of w's updates that some computing peer u has
// not seen stays below a bound that shrinks with the clock,
//     max over u of unseen[u][w] <= v_t = v0 / sqrt(t + 1),   or it is a single update
// mass of an update = its largest change of a parameter. A reply shows u everything that is
// applied, so unseen[u][*] = 0; a peer that waits for its reply will see everything, so it does not
// count. An update that does not fit yet is kept, in the order of arrival, and its worker's next
// read with it (own writes stay visible). Reads are not gated otherwise.
//
// A worker that has read shard A and waits at shard B counts as computing at A: two such workers
// could wait for each other crosswise, so shards are asked in their order (ordered_reads), and the
// one furthest in the order goes on.
//
// Invariants: V1 the bound above, after every event. V3 nothing is kept once all wait or are gone:
// then the first update kept fits, so there is no deadlock. Degenerate: v0 = infinity is async.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/memory/state_image.h"
#include "consistency/action.h"
#include "consistency/clock_table.h"
#include "consistency/traits.h"

namespace soapstone::consistency {

class ValueGate {
 public:
  explicit ValueGate(const ValueTraits& traits) : value_(traits.value) {}

  Actions OnJoin(WorkerId worker, Clock clock);
  Actions OnLeave(WorkerId worker);
  Actions OnPush(const PushEvent& push);
  Actions OnClock(const ClockEvent& event);
  Actions OnPull(const PullEvent& pull);
  Actions OnDrain() { return {}; }

  const ClockTable& clocks() const { return clocks_; }
  Clock Frontier() const;
  // The greatest unseen mass now, and whether it may exceed the bound as a single update.
  double UnseenMax() const;

  friend bool operator==(const ValueGate&, const ValueGate&) = default;
  void AddTo(Fingerprint* f) const;
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.clocks_, self.held_, self.parked_, self.computing_);
  }

 private:
  using Source = std::pair<WorkerId, BucketId>;
  struct Held {
    WorkerId worker{};
    BucketId bucket{};
    Clock clock = 0;
    double mass = 0;
    Ticket ticket{};
    template <class Self, class Visitor>
    static void Visit(Self& self, Visitor&& visit) {
      visit(self.worker, self.bucket, self.clock, self.mass, self.ticket);
    }
    friend bool operator==(const Held&, const Held&) = default;
  };

  bool Fits(const Held& update) const;
  void Apply(const Held& update, Actions* actions);
  bool HasHeld(WorkerId worker) const;
  // Applies what fits, then answers the parked whose updates are all in; until nothing moves.
  void Settle(Actions* actions);

  // A worker that computes at `clock` with what it has read, and what it has not seen since.
  struct Computing {
    Clock clock = 0;
    std::map<Source, double> unseen;
    template <class Self, class Visitor>
    static void Visit(Self& self, Visitor&& visit) {
      visit(self.clock, self.unseen);
    }
    friend bool operator==(const Computing&, const Computing&) = default;
  };

  double value_;
  ClockTable clocks_;
  std::vector<Held> held_;  // in the order of arrival
  std::map<WorkerId, std::pair<Clock, Ticket>> parked_;
  std::map<WorkerId, Computing> computing_;
};

}  // namespace soapstone::consistency
