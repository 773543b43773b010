// RoundGate: the gate of bsp and of synchronous easgd. The shard holds one version; every
// member reads version t; the pushes of round t are held, and applied together, summed in a fixed
// order, when the round is complete. So no read sees part of a round, and the result does not
// depend on arrival order.
//
// A round is complete when every member has clocked it and, with kAllMicroBatches, every bucket's
// micro-batches are covered. Because a member clocks round t only after it read version t, no read
// of t can be outstanding when t+1 is published: one version in memory is a true snapshot.
//
// Invariants: version() never falls. A held push is gathered once, or forgotten by no one.
// When a member leaves under kAllMicroBatches the others must supply its missing micro-batches (the
// worker programs do), as nodes of the tree: of two that overlap the larger counts, and of two that
// hold the same micro-batches the first, so each micro-batch counts exactly once.
#pragma once

#include <cstdint>

#include "base/memory/state_image.h"
#include "consistency/action.h"
#include "consistency/clock_table.h"
#include "consistency/gates/open_round.h"

namespace soapstone::consistency {

class RoundGate {
 public:
  enum class Complete : uint8_t { kAllMicroBatches, kAllMembers };
  // `fetches`: at a branch of the tree; what a round gathers goes to the root, and version t+1 is
  // published when its values have come from there (OnFetched).
  RoundGate(Complete complete, uint32_t bucket_count, uint32_t micro_batch_count,
            bool fetches = false)
      : complete_(complete),
        fetches_(fetches),
        micro_batch_count_(micro_batch_count),
        held_(bucket_count) {}

  Actions OnJoin(WorkerId worker, Clock clock);
  Actions OnLeave(WorkerId worker);
  Actions OnPush(const PushEvent& push);
  Actions OnClock(const ClockEvent& event);
  Actions OnDrain() { return {}; }
  Actions OnPull(const PullEvent& pull);
  Actions OnFetched(Clock clock);
  // To the root the members from now on are another one, which takes part from `start` on: what is
  // here is of before.
  Actions OnRestart(Clock start);
  bool fetching() const { return fetching_; }

  const ClockTable& clocks() const { return clocks_; }
  Clock Frontier() const { return version_; }

  friend bool operator==(const RoundGate&, const RoundGate&) = default;
  void AddTo(Fingerprint* f) const;
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.fetching_, self.stale_, self.version_, self.clocks_, self.held_, self.parked_);
  }

 private:
  bool RoundComplete() const;
  void PublishIfComplete(Actions* actions);
  void FetchIfAsked(Actions* actions);
  void Fetch(Actions* actions);

  Complete complete_;
  bool fetches_ = false;
  bool fetching_ = false;  // the values of version_ are still to come
  bool stale_ = false;     // and will be asked for when a member does
  uint32_t micro_batch_count_;
  Clock version_ = 0;
  ClockTable clocks_;
  HeldPushes held_;
  ParkedPulls parked_;
};

}  // namespace soapstone::consistency
