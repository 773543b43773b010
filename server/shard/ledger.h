// Ledger: what a shard's reads and updates show of its policy's guarantee, worker by worker. The
// shard tells it what arrives, what the gate says of it and what is read, the store testifies to
// what it applied, in which order, and to the version of what was read; the ledger keeps a version
// vector of its own from that, never the gate's, so that an error in the gate cannot excuse itself.
// Every read but final ones, and every update, is counted by lag and staleness, and every read is
// held to the guarantee.
//
// An update is pending, applied (the store says so) or dropped. Dropped it counts as never applied,
// unless its micro-batches are here from another worker, or its round closed without it as the
// policy may. Version vector: applied(w) = the least clock of which worker w may have an update
// that is not in the store = min(clocks that w has completed here, of its oldest pending or dropped
// update). Asserted, as far as the guarantee says so:
//   a read of worker w at clock c   c - min over members of applied <= read_lag_max
//                                   snapshot reads: and no update of clock c or later is in
//                                   own writes: and applied(w) >= c, less the clocks by which
//                                   members read ahead of what they have pushed
//                                   its reply claims no more than that min (`oldest`), and holds
//                                   as many updates as were applied (`version`)
//   a final read                    every member's last clock is in
//   worker w completes clock c      c - min over members of applied <= clock_gap_max
//                                   (never less than its gap to the slowest)
//   the values of peers at the end  are the same, where replicas are
//   an update                       is dropped only where another stands for it; those of one
//                                   worker and bucket are applied by ascending clocks, those of one
//                                   round of the fixed tree by ascending micro-batches, each once
// The unseen mass of the value policies is not asserted here. A value: copied with its shard.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/histogram.h"
#include "base/ids.h"
#include "consistency/clock_table.h"
#include "consistency/traits.h"
#include "consistency/violation_log.h"
#include "server/store/store.h"

namespace soapstone::server {

// A guarantee broken.
struct Violation {
  enum class Kind : uint8_t {
    kReadLag,
    kSnapshot,
    kOwnWrites,
    kClockGap,
    kDropped,   // an update that no other stands for
    kOrder,     // applied after a later one
    kStore,     // the store did not apply what it was given, or not in that order
    kOldest,    // a reply claims more than is applied
    kOlder,     // a reply holds other values than the newest
    kFinal,     // a final read before the last update
    kReplicas,  // two peers that should have the same values handed in others
  };
  Kind kind{};
  ShardId shard{};
  WorkerId worker{};
  Clock clock = 0;  // of the read or the update; completed (kClockGap)
  Clock seen = 0;   // the lag or the gap; kSnapshot, kOwnWrites, kOrder: the clock of that update;
                    // kOldest, kFinal: what is applied; kStore, kOlder: updates;
                    // kReplicas: the other peer
  Clock bound = 0;  // of the lag or the gap; kOldest: claimed; kStore, kOlder: updates due
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.kind, self.shard, self.worker, self.clock, self.seen, self.bound);
  }
  friend bool operator==(const Violation&, const Violation&) = default;
  const char* KindName() const;  // as reports have it
  std::string ToString() const;
};

class Ledger {
 public:
  // Of one worker at this shard.
  struct Row {
    Histogram read_lags;    // reads by lag
    uint64_t lag_sum = 0;   // of them
    Histogram stalenesses;  // updates by gradient staleness
    uint64_t violations = 0;
    template <class Self, class Visitor>
    static void Visit(Self& self, Visitor&& visit) {
      visit(self.read_lags, self.lag_sum, self.stalenesses, self.violations);
    }
    friend bool operator==(const Row&, const Row&) = default;
  };

  // `shares_micro_batches`: whoever pushes a micro-batch of a round, it counts once (the fixed
  // tree). `own_lag`: clocks by which members read ahead of what they have pushed, at most.
  Ledger(ShardId shard, const consistency::Guarantee& guarantee, bool shares_micro_batches = false,
         Clock own_lag = 0)
      : shard_(shard), terms_{guarantee, shares_micro_batches, own_lag} {}

  // A member takes part from `clock` on; called again to move it there. Is a member no more.
  void OnMember(WorkerId worker, Clock clock);
  void OnGone(WorkerId worker);
  // All pushes of the worker's clocks below `completed` have been taken.
  void OnClock(WorkerId worker, Clock completed);
  // An update of one bucket, as its push names it.
  struct Update {
    WorkerId worker{};
    Clock clock = 0;
    BucketId bucket{};
    MicroBatchRange micro_batches;
    template <class Self, class Visitor>
    static void Visit(Self& self, Visitor&& visit) {
      visit(self.worker, self.clock, self.bucket, self.micro_batches);
    }
  };
  // A push is in hand: pending.
  void OnTaken(const Update& update);
  // It is given to the store, after all that were before; OnStored is the store's word.
  void OnApplied(const Update& update, uint64_t staleness);
  void OnStored(BucketId bucket, const Store::Stamp& stamp);
  // A peer's values at the end of its run, of one bucket: their checksum (base/frame_sums.h).
  void OnHandIn(WorkerId worker, BucketId bucket, uint64_t sum);
  // The gate does not want it. OnLeftOut: its round is closed without it. OnRefused: its worker is
  // told so. Void: all that is pending is of a former life of this shard's members.
  void OnDropped(const Update& update);
  void OnLeftOut(const Update& update);
  void OnRefused(const Update& update);
  void Void();
  // What is sent to `worker`, which will use it at `clock`; what the reply claims to be the oldest
  // applied clock, and the version that the store stamped the values with.
  struct Read {
    WorkerId worker{};
    Clock clock = 0;
    Clock oldest = 0;
    uint64_t version = 0;
  };
  void OnRead(const Read& read);
  void OnFinalRead(const Read& read);

  // By worker index, up to the last that has read or pushed. Rows outlive memberships.
  const std::vector<Row>& rows() const { return rows_; }
  Row Total() const;
  const std::optional<Violation>& first_violation() const { return first_violation_; }
  const consistency::ViolationLog& violations() const { return log_; }
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.applied_, self.rounds_, self.expected_, self.given_, self.surplus_, self.members_,
          self.rows_, self.newest_, self.first_violation_, self.log_, self.handed_in_);
  }

 private:
  struct Member {
    Clock completed = kNoClock;                         // kNoClock: none
    std::vector<std::pair<Clock, uint32_t>> pending{};  // pushes by clock, ascending
    Clock dropped = kClockMax;                          // of the first that nothing stands for
    std::vector<Clock> latest{};                        // by bucket: clock of the last applied
    template <class Self, class Visitor>
    static void Visit(Self& self, Visitor&& visit) {
      visit(self.completed, self.pending, self.dropped, self.latest);
    }
  };
  // The micro-batches of one round that have come, of one bucket.
  struct Round {
    Clock clock = kNoClock;
    struct Node {
      uint32_t end = 0;
      WorkerId worker{};
      template <class Self, class Visitor>
      static void Visit(Self& self, Visitor&& visit) {
        visit(self.end, self.worker);
      }
    };
    std::map<uint32_t, Node> micro_batches;  // by begin; never overlapping
    uint32_t applied = 0;                    // micro-batches below this
    template <class Self, class Visitor>
    static void Visit(Self& self, Visitor&& visit) {
      visit(self.clock, self.micro_batches, self.applied);
    }
  };

  Row& RowOf(WorkerId worker);
  Member& MemberOf(WorkerId worker);
  // A push of `clock` is pending no more. False: it was of a former member of its rank.
  bool Forget(WorkerId worker, Clock clock);
  // A copy of micro-batches that have come already. Of two that overlap the larger counts: it takes
  // the place of its parts, which are copies from then on.
  bool IsSurplus(const Update& update);
  void CheckOrder(const Update& update);
  void CheckVersion(const Read& read);
  void Refresh(WorkerId worker);  // applied_, after a change of its Member
  void Break(const Violation& violation);

  ShardId shard_;
  struct Terms {
    consistency::Guarantee guarantee;
    bool shares_micro_batches = false;
    Clock own_lag = 0;
  };
  Terms terms_;
  consistency::ClockTable applied_;
  std::vector<Round> rounds_;           // by bucket, where micro-batches are shared
  std::vector<Store::Stamp> expected_;  // by bucket: what the store should say
  std::vector<Update> given_;           // to the store, which has not said so yet
  std::vector<Update> stored_;          // scratch of OnStored
  std::vector<Update> surplus_;         // pending copies; they will be dropped
  std::vector<Member> members_;         // by worker index
  std::vector<Row> rows_;
  Clock newest_ = kNoClock;  // greatest clock of any update in the store
  std::optional<Violation> first_violation_;
  consistency::ViolationLog log_;
  struct HandedIn {
    std::optional<uint64_t> sum;
    WorkerId worker{};
    template <class Self, class Visitor>
    static void Visit(Self& self, Visitor&& visit) {
      visit(self.sum, self.worker);
    }
  };
  std::vector<HandedIn> handed_in_;  // by bucket: the first peer's values
};

}  // namespace soapstone::server
