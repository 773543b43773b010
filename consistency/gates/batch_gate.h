// BatchGate: n-softsync (Gupta, Zhang, Wang, "Model accuracy and runtime tradeoff in
// distributed deep learning", ICDM 2016). Reads are never gated. A bucket's pushes are kept until
// there are c = floor(P/n) of them, then applied together, in the order of arrival.
//     x <- x - (lr / n) (1/c) sum_i g_i,   g_i the mean gradient of one worker's mini-batch
// The store divides by the global batch, P mini-batches, and (1/n)(1/c) = 1/P: so each weight is 1
// and the rate is already divided by n, the mean staleness. With `rate_each` the rate is divided by
// each gradient's own staleness instead (Zhang et al., IJCAI 2016):
//     weight_i = min(n, P) / max(1, staleness_i)
// What is kept is applied early, fewer than c, when the membership changes and at the end of the
// run, so that no update waits for arrivals that may never come.
// Degenerate: n = P is async.
#pragma once

#include <vector>

#include "base/memory/state_image.h"
#include "consistency/action.h"
#include "consistency/clock_table.h"
#include "consistency/traits.h"

namespace soapstone::consistency {

class BatchGate {
 public:
  BatchGate(const BatchTraits& traits, uint32_t bucket_count)
      : batches_(traits.batches), rate_each_(traits.rate_each), held_(bucket_count) {}

  Actions OnJoin(WorkerId worker, Clock clock);
  Actions OnLeave(WorkerId worker);
  Actions OnPush(const PushEvent& push);
  Actions OnClock(const ClockEvent& event);
  Actions OnPull(const PullEvent& pull);
  // Every member has completed its last clock.
  Actions OnDrain();

  const ClockTable& clocks() const { return clocks_; }
  Clock Frontier() const;

  friend bool operator==(const BatchGate&, const BatchGate&) = default;
  void AddTo(Fingerprint* f) const;
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.clocks_, Fixed(self.held_));
  }

 private:
  struct Held {
    WorkerId worker{};
    Clock clock = 0;
    Ticket ticket{};
    float weight = 1;
    template <class Self, class Visitor>
    static void Visit(Self& self, Visitor&& visit) {
      visit(self.worker, self.clock, self.ticket, self.weight);
    }
    friend bool operator==(const Held&, const Held&) = default;
  };

  void ApplyHeld(std::vector<Held>* held, Actions* actions) const;

  uint32_t batches_;
  bool rate_each_;
  ClockTable clocks_;
  std::vector<std::vector<Held>> held_;  // by bucket, in the order of arrival
};

}  // namespace soapstone::consistency
