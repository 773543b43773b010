// SampledGate: probabilistic barriers. Both look at fewer workers, or less often, than ssp does.
//   psp:sample=b,s=N   a read at clock c asks b of the other members, drawn without replacement,
//                      and waits until each has applied >= c - N           (Wang et al., 2017)
//   pssp:s=N,p=Q       where ssp with N would block, it blocks with probability Q, else it passes
//                                                                  (FluentPS, CLUSTER 2019)
// Draws are functions of (seed, worker, clock): the same on every shard and in every run.
// With L of the m other members lagging, psp passes at once with probability
//     C(m - L, b) / C(m, b)                                                (hypergeometric)
// Degenerate: b = all others, and Q = 1, are ssp.
//
// Invariant: the slowest member is never parked: nobody lags behind it.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "base/memory/state_image.h"
#include "consistency/action.h"
#include "consistency/clock_table.h"
#include "consistency/traits.h"

namespace soapstone::consistency {

class SampledGate {
 public:
  explicit SampledGate(const SampledTraits& traits)
      : bound_(traits.bound),
        sample_(traits.sample),
        block_probability_(traits.block_probability),
        seed_(traits.seed) {}

  Actions OnJoin(WorkerId worker, Clock clock);
  Actions OnLeave(WorkerId worker);
  Actions OnPush(const PushEvent& push);
  Actions OnClock(const ClockEvent& event);
  Actions OnPull(const PullEvent& pull);
  Actions OnDrain() { return {}; }

  const ClockTable& clocks() const { return clocks_; }
  Clock Frontier() const { return clocks_.Min(); }

  friend bool operator==(const SampledGate&, const SampledGate&) = default;
  void AddTo(Fingerprint* f) const;
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.clocks_, self.parked_);
  }

 private:
  struct Parked {
    Ticket ticket{};
    std::vector<WorkerId> peers;  // drawn; empty: all members count
    template <class Self, class Visitor>
    static void Visit(Self& self, Visitor&& visit) {
      visit(self.ticket, self.peers);
    }
    friend bool operator==(const Parked&, const Parked&) = default;
  };

  std::vector<WorkerId> Draw(WorkerId reader, Clock clock) const;
  bool Admits(Clock clock, const std::vector<WorkerId>& peers) const;
  Actions ReleaseAdmitted();

  Clock bound_;
  uint32_t sample_;
  double block_probability_;
  uint64_t seed_;
  ClockTable clocks_;
  std::map<std::pair<Clock, WorkerId>, Parked> parked_;
};

}  // namespace soapstone::consistency
