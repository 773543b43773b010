// ClockTable: the applied clock of each member at one shard (the shard's vector clock), with its
// minimum in O(1). A value. Who calls: the gates. Knows nothing of policies.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "base/memory/recycling.h"
#include "base/memory/state_image.h"

namespace soapstone::consistency {

class ClockTable {
 public:
  // Adds a member at `clock`, or moves a member to it.
  void Set(WorkerId worker, Clock clock);
  void Remove(WorkerId worker);

  bool Contains(WorkerId worker) const { return Of(worker) != kNoClock; }
  // kNoClock for a non-member.
  Clock Of(WorkerId worker) const;
  // The least and greatest clock of any member; kClockMax and kNoClock when there is none.
  Clock Min() const { return counts_.empty() ? kClockMax : counts_.begin()->first; }
  Clock Max() const { return counts_.empty() ? kNoClock : counts_.rbegin()->first; }
  size_t members() const { return members_; }
  // One above the greatest index of any worker that was a member.
  uint32_t ranks() const { return static_cast<uint32_t>(clocks_.size()); }

  friend bool operator==(const ClockTable&, const ClockTable&) = default;
  void AddTo(Fingerprint* f) const;
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.clocks_, self.counts_, self.members_);
  }

 private:
  std::vector<Clock> clocks_;  // by worker index; kNoClock: not a member
  // Members per clock.
  std::map<Clock, uint32_t, std::less<>, RecyclingAllocator<std::pair<const Clock, uint32_t>>>
      counts_;
  size_t members_ = 0;
};

}  // namespace soapstone::consistency
