// SnapshotRounds: the gate of bsp and of synchronous easgd. The shard holds one version; every
// member reads version t; the pushes of round t are held, and applied together, summed in a fixed
// order, when the round is complete. So no read sees part of a round, and the result does not
// depend on arrival order.
//
// A round is complete when every member has clocked it and, with kAllLeaves, every bucket's leaves
// are covered. Because a member clocks round t only after it read version t, no read of t can be
// outstanding when t+1 is published: one version in memory is a true snapshot.
//
// Invariants: version() never falls. A held push is gathered once, or forgotten by no one.
// When a member leaves under kAllLeaves the others must supply its missing leaves (the worker
// programs do); overlapping supplies are dropped, so each leaf counts exactly once.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "consistency/action.h"
#include "consistency/clock_table.h"

namespace soapstone::consistency {

class SnapshotRounds {
 public:
  enum class Complete : uint8_t { kAllLeaves, kAllMembers };
  SnapshotRounds(Complete complete, uint32_t bucket_count, uint32_t leaf_count)
      : complete_(complete), leaf_count_(leaf_count), held_(bucket_count) {}

  Actions OnJoin(WorkerId worker, Clock clock);
  Actions OnLeave(WorkerId worker);
  Actions OnPush(const PushEvent& push);
  Actions OnClock(const ClockEvent& event);
  Actions OnDrain() { return {}; }
  Actions OnPull(const PullEvent& pull);

  const ClockTable& clocks() const { return clocks_; }
  Clock Frontier() const { return version_; }

  friend bool operator==(const SnapshotRounds&, const SnapshotRounds&) = default;
  void AddTo(Fingerprint* f) const;

 private:
  struct Held {
    LeafRange leaves;
    WorkerId worker{};
    Ticket ticket{};
    friend bool operator==(const Held&, const Held&) = default;
  };

  bool RoundComplete() const;
  void PublishIfComplete(Actions* actions);

  Complete complete_;
  uint32_t leaf_count_;
  Clock version_ = 0;
  ClockTable clocks_;
  std::vector<std::vector<Held>> held_;  // by bucket; ascending by leaves, never overlapping
  std::map<WorkerId, std::pair<Clock, Ticket>> parked_;
};

}  // namespace soapstone::consistency
