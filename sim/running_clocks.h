// RunningClocks: how far those that a policy counts have come: workers, or where a model is split
// over teams, each team as far as the slowest of its seats that has begun. The checkers look at how
// far they are apart. A value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "wire/membership/teams.h"

namespace soapstone::sim {

// A multiset of clocks with its extremes.
class ClockCounts {
 public:
  void Add(Clock clock) { ++counts_[clock]; }
  void Remove(Clock clock) {
    const auto it = counts_.find(clock);
    if (--it->second == 0) counts_.erase(it);
  }
  bool empty() const { return counts_.empty(); }
  Clock Min() const { return counts_.begin()->first; }
  Clock Max() const { return counts_.rbegin()->first; }

 private:
  std::map<Clock, uint32_t> counts_;
};

class RunningClocks {
 public:
  explicit RunningClocks(wire::TeamShape shape) : shape_(shape) {}

  bool empty() const { return clocks_.empty(); }
  Clock Max() const { return counts_.Max(); }
  Clock Gap() const { return counts_.Max() - counts_.Min(); }
  bool Has(WorkerId worker) const { return seats_.contains(worker); }

  // A worker begins at `clock`.
  void Start(WorkerId worker, Clock clock) {
    seats_[worker] = clock;
    Update(worker);
  }
  void Gone(WorkerId worker) {
    if (seats_.erase(worker) > 0) Update(worker);
  }
  // REQUIRES: Has.
  void Complete(WorkerId worker, Clock clock) {
    Clock& seat = seats_.at(worker);
    if (clock <= seat) return;
    seat = clock;
    Update(worker);
  }

  void AddTo(Fingerprint* f) const {
    for (const auto& [worker, clock] : seats_) {
      f->Add(Index(worker));
      f->Add(clock);
    }
  }

 private:
  // Of the worker's team.
  void Update(WorkerId worker) {
    const WorkerId team = wire::TeamOf(worker, shape_);
    if (const auto was = clocks_.find(team); was != clocks_.end()) {
      counts_.Remove(was->second);
      clocks_.erase(was);
    }
    const auto first = seats_.lower_bound(wire::WorkerAt(team, 0, shape_));
    const auto last = seats_.lower_bound(wire::WorkerAt(WorkerId{Index(team) + 1}, 0, shape_));
    if (first == last) return;
    Clock least = first->second;
    for (auto seat = first; seat != last; ++seat) least = std::min(least, seat->second);
    clocks_[team] = least;
    counts_.Add(least);
  }

  wire::TeamShape shape_;
  std::map<WorkerId, Clock> seats_;   // completed clocks, by worker
  std::map<WorkerId, Clock> clocks_;  // by team
  ClockCounts counts_;                // of clocks_
};

}  // namespace soapstone::sim
