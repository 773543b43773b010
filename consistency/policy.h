// Policy: a consistency policy as a value. Who calls: one server shard owns one policy object and
// feeds it every join, leave, push, clock and pull; the explorer and the simulator drive the very
// same object. It has no clock, no socket, no tensor, no lock, and no randomness but what its seed
// and an event's worker and clock determine. catalogue.h lists the policies and reads their specs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>

#include "absl/types/span.h"
#include "consistency/action.h"
#include "consistency/catalogue.h"
#include "consistency/clock_table.h"
#include "consistency/gates/backup_gate.h"
#include "consistency/gates/batch_gate.h"
#include "consistency/gates/bounded_gate.h"
#include "consistency/gates/dynamic_gate.h"
#include "consistency/gates/round_gate.h"
#include "consistency/gates/sampled_gate.h"
#include "consistency/gates/subscribed_gate.h"
#include "consistency/gates/value_gate.h"
#include "consistency/traits.h"

namespace soapstone::consistency {

class Policy {
 public:
  // The policy object of one shard with `bucket_count` buckets; `micro_batch_count` is M of
  // leaf_tree.h.
  Policy(const PolicyTraits& traits, uint32_t bucket_count, uint32_t micro_batch_count,
         ShardSeat seat = {});

  // A member takes part from `clock` on; called again to raise a member's start clock.
  Actions OnJoin(WorkerId worker, Clock clock);
  // It takes part no more; whoever waited only for it is released.
  Actions OnLeave(WorkerId worker);
  Actions OnPush(const PushEvent& push);
  Actions OnClock(const ClockEvent& event);
  Actions OnPull(const PullEvent& pull);
  // Every member has completed its last clock: whatever is kept for later is applied now.
  Actions OnDrain();
  // Between shards (backup only; else nothing comes of it): shard `from` holds all pushes of
  // `worker` for round `clock`; shard 0 has chosen the updates of round `clock`.
  Actions OnHeld(ShardId from, WorkerId worker, Clock clock);
  Actions OnChosen(Clock clock, absl::Span<const WorkerId> workers);
  // At a branch of the tree: the root's values for `clock` are here; its members from now on are
  // another one to the root; values are still to come.
  Actions OnFetched(Clock clock);
  Actions OnRestart(Clock start);
  bool fetching() const;
  // Backup: of the latest round that was closed, ascending.
  absl::Span<const WorkerId> chosen() const;

  const PolicyTraits& traits() const { return traits_; }
  const ClockTable& clocks() const;
  // All updates of clocks below this are in the store.
  Clock Frontier() const;
  // What a read promises to hold: all updates of clocks below this, as far as the policy takes
  // them.
  Clock Oldest() const {
    return traits_.spare() > 0 ? Frontier() : std::min(clocks().Min(), Frontier());
  }
  // Policies that look at intervals: when the newest clock of a member came; -1: none.
  Nanos NewestClock() const;
  // Value policies: the greatest mass of one worker's updates that a computing peer has not seen.
  double UnseenMax() const;

  friend bool operator==(const Policy&, const Policy&) = default;
  void AddTo(Fingerprint* f) const;
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.gate_);
  }

 private:
  using AnyGate = std::variant<RoundGate, BoundedGate, SubscribedGate, DynamicGate, SampledGate,
                               BatchGate, ValueGate, BackupGate>;
  static AnyGate MakeGate(const PolicyTraits& traits, uint32_t bucket_count,
                          uint32_t micro_batch_count, ShardSeat seat);

  PolicyTraits traits_;
  AnyGate gate_;
};

}  // namespace soapstone::consistency
