// What gates of rounds keep while a round is open: its pushes, and pulls of versions to come.
// Values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "base/memory/state_image.h"
#include "consistency/action.h"

namespace soapstone::consistency {

struct HeldPush {
  MicroBatchRange micro_batches;
  WorkerId worker{};
  Ticket ticket{};
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.micro_batches, self.worker, self.ticket);
  }
  friend bool operator==(const HeldPush&, const HeldPush&) = default;
};

// By bucket, ascending by micro-batches, never overlapping.
class HeldPushes {
 public:
  explicit HeldPushes(uint32_t bucket_count) : buckets_(bucket_count) {}

  // kHold; kDrop where some of its micro-batches are here already; kReject: there is no such
  // bucket. `replaced`: null, or a push that holds all of the pushes that it overlaps, and more,
  // takes their place: their drops are added to it. For sums along the tree, whose nodes lie within
  // one another or apart, and have the same bits whether they come in one or in parts.
  ActionKind Add(const PushEvent& push, Actions* replaced = nullptr);
  // Adds an action of `kind` for each, and forgets them.
  void Release(ActionKind kind, Actions* actions);

  std::vector<std::vector<HeldPush>>& buckets() { return buckets_; }
  const std::vector<std::vector<HeldPush>>& buckets() const { return buckets_; }

  friend bool operator==(const HeldPushes&, const HeldPushes&) = default;
  void AddTo(Fingerprint* f) const;
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(Fixed(self.buckets_));
  }

 private:
  std::vector<std::vector<HeldPush>> buckets_;
};

// One a worker, with the clock that it waits for.
class ParkedPulls {
 public:
  void Park(const PullEvent& pull) {
    pulls_.insert_or_assign(pull.worker, std::pair(pull.clock, pull.ticket));
  }
  void Erase(WorkerId worker) { pulls_.erase(worker); }
  bool empty() const { return pulls_.empty(); }
  // Replies to those that wait for `version` or an earlier one.
  void Release(Clock version, Actions* actions);

  friend bool operator==(const ParkedPulls&, const ParkedPulls&) = default;
  void AddTo(Fingerprint* f) const;
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.pulls_);
  }

 private:
  std::map<WorkerId, std::pair<Clock, Ticket>> pulls_;
};

}  // namespace soapstone::consistency
