// BackupGate: synchronous rounds that do not wait for their last b workers (Chen et al.,
// "Revisiting distributed synchronous SGD", 2016). Round t closes when N of its P members have all
// their pushes of t on every shard,
//     N = max(1, P - b)
// and takes those N updates, the same ones on all shards, summed along the fixed tree; the others'
// are left out, whenever they come. A late worker's next read is answered with the version there
// is, and it goes on from there.
//
// One shard must choose, or shards whose messages come in another order would close the round with
// other sets. Shard 0 does:
//     shard k -> shard 0    held(w, t): all pushes of worker w for round t are here
//     shard 0 -> shard k    chosen(t, set), once N workers are held by every shard
// It asks for no more than what is there already: a worker that is lost in mid-push is in no set,
// and one that is lost after it stays in. The update of (w, t) is a function of w's micro-batches
// and version t, so a replacement of a rank supplies the same bits as its predecessor, and which of
// the two is held makes no difference.
//
// Invariants: K1 version t+1 holds N updates of each round up to t, the same ones on every shard.
// Shard 0 is at most one version ahead of any other. b = 0 is bsp, as long as nobody is lost:
// nobody takes over the micro-batches of a lost worker here.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/types/span.h"
#include "base/memory/state_image.h"
#include "consistency/action.h"
#include "consistency/clock_table.h"
#include "consistency/gates/open_round.h"

namespace soapstone::consistency {

// Which shard a policy object serves, of how many.
struct ShardSeat {
  ShardId shard{};
  uint32_t shards = 1;
  friend bool operator==(const ShardSeat&, const ShardSeat&) = default;
};

class BackupGate {
 public:
  BackupGate(uint32_t spare, ShardSeat seat, uint32_t bucket_count)
      : spare_(spare), seat_(seat), held_(bucket_count) {}

  Actions OnJoin(WorkerId worker, Clock clock);
  Actions OnLeave(WorkerId worker);
  Actions OnPush(const PushEvent& push);
  Actions OnClock(const ClockEvent& event);
  Actions OnPull(const PullEvent& pull);
  Actions OnDrain() { return {}; }
  // At shard 0. Of another round: late, and nothing comes of it.
  Actions OnHeld(ShardId from, WorkerId worker, Clock clock);
  // At the others. A second time: nothing.
  Actions OnChosen(Clock clock, absl::Span<const WorkerId> workers);

  const ClockTable& clocks() const { return clocks_; }
  Clock Frontier() const { return version_; }
  // Of the latest round that was closed, ascending.
  absl::Span<const WorkerId> chosen() const { return chosen_; }

  friend bool operator==(const BackupGate&, const BackupGate&) = default;
  void AddTo(Fingerprint* f) const;
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.version_, self.clocks_, self.starts_, self.held_, self.parked_, self.holders_,
          self.complete_, self.chosen_);
  }

 private:
  bool leads() const { return Index(seat_.shard) == 0; }
  size_t Needed() const;  // N of the open round
  void CloseIfChosen(Actions* actions);
  void Close(Actions* actions);  // with chosen_

  uint32_t spare_;
  ShardSeat seat_;
  Clock version_ = 0;
  ClockTable clocks_;
  std::map<WorkerId, Clock> starts_;  // of members
  HeldPushes held_;
  ParkedPulls parked_;
  // Of the open round, at shard 0: which shards hold a worker's pushes, and who is held by all, in
  // the order in which that came to be.
  std::map<WorkerId, std::set<ShardId>> holders_;
  std::vector<WorkerId> complete_;
  std::vector<WorkerId> chosen_;
};

}  // namespace soapstone::consistency
