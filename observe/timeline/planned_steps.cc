#include "observe/timeline/planned_steps.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace soapstone::timeline {
namespace {

constexpr size_t kSlicesMax = 1 << 20;  // of a seat; a picture has room for fewer
constexpr Nanos kIterationMax =
    3'600 * kSecond;  // what a file may claim; sums of all its clocks fit

// Of one seat in one planned iteration.
struct PlannedSeat {
  uint32_t team = 0;
  Nanos iteration_ns = 0;
};

std::optional<PlannedSeat> SeatOf(const ThreadEvents& thread) {
  if (thread.kind != ThreadKind::kPlanned) return std::nullopt;
  for (const Event& event : thread.events) {
    if (event.kind == EventKind::kStep) {
      return PlannedSeat{event.with, std::min(event.end_ns, kIterationMax)};
    }
  }
  return std::nullopt;
}

// A team, as far as it is seen.
struct TeamSteps {
  Nanos iteration_ns = 0;
  std::set<Clock> made;             // by some worker
  std::map<Clock, Nanos> computed;  // when the first forward half of a clock began
  std::map<Clock, Nanos> placed;    // when what was planned of it begins
};

class Placing {
 public:
  Placing(const std::vector<ThreadEvents>& threads, const ClockRange& clocks,
          const MachineClocks& machines)
      : threads_(threads), clocks_(clocks), machines_(machines) {}

  std::vector<PlannedSlice> Place() {
    FindTeams();
    for (const ThreadEvents& thread : threads_) LookAt(thread);
    for (auto& [team, steps] : teams_) PlaceClocks(&steps);
    std::vector<PlannedSlice> slices;
    for (size_t t = 0; t < threads_.size(); ++t) {
      const std::optional<PlannedSeat> seat = SeatOf(threads_[t]);
      if (seat.has_value()) AddSeat(t, teams_[seat->team], &slices);
    }
    return slices;
  }

 private:
  void FindTeams() {
    for (const ThreadEvents& thread : threads_) {
      const std::optional<PlannedSeat> seat = SeatOf(thread);
      if (!seat.has_value()) continue;
      team_of_[thread.index] = seat->team;
      teams_[seat->team].iteration_ns = seat->iteration_ns;
    }
  }

  void LookAt(const ThreadEvents& thread) {
    const auto team = team_of_.find(thread.index);
    const bool of_worker =
        thread.kind == ThreadKind::kWorkerLoop || thread.kind == ThreadKind::kWorkerDevice;
    if (!of_worker || team == team_of_.end()) return;
    TeamSteps& steps = teams_[team->second];
    for (const Event& event : thread.events) {
      if (!clocks_.Has(event.clock)) continue;
      if (event.kind == EventKind::kStep) steps.made.insert(event.clock);
      if (event.kind != EventKind::kForward) continue;
      const Nanos at = machines_.OnFirst(thread.machine, event.begin_ns);
      const auto [first, fresh] = steps.computed.try_emplace(event.clock, at);
      if (!fresh) first->second = std::min(first->second, at);
    }
  }

  static void PlaceClocks(TeamSteps* steps) {
    std::optional<Nanos> until;
    for (const auto& [clock, at] : steps->computed) {
      if (!steps->made.contains(clock)) continue;
      const Nanos begin = until.has_value() ? std::max(at, *until) : at;
      steps->placed[clock] = begin;
      until = begin + steps->iteration_ns;
    }
  }

  void AddSeat(size_t t, const TeamSteps& steps, std::vector<PlannedSlice>* slices) const {
    std::vector<PlannedSlice> seat;
    for (const auto& [clock, at] : steps.placed) {
      for (const Event& half : threads_[t].events) {
        if (half.kind != EventKind::kForward && half.kind != EventKind::kBackward) continue;
        if (seat.size() == kSlicesMax) break;
        seat.push_back({t, &half, clock, at + half.begin_ns, at + half.end_ns});
      }
    }
    // Where iterations overlap, halves of several clocks take turns.
    std::stable_sort(seat.begin(), seat.end(), [](const PlannedSlice& a, const PlannedSlice& b) {
      return a.begin < b.begin;
    });
    std::optional<Nanos> until;
    for (PlannedSlice& slice : seat) {
      if (until.has_value()) slice.begin = std::max(slice.begin, *until);
      if (slice.end <= slice.begin) continue;
      until = slice.end;
      slices->push_back(slice);
    }
  }

  const std::vector<ThreadEvents>& threads_;
  const ClockRange& clocks_;
  const MachineClocks& machines_;
  std::map<uint32_t, uint32_t> team_of_;  // by worker
  std::map<uint32_t, TeamSteps> teams_;
};

}  // namespace

std::vector<PlannedSlice> PlaceSteps(const std::vector<ThreadEvents>& threads,
                                     const ClockRange& clocks, const MachineClocks& machines) {
  return Placing(threads, clocks, machines).Place();
}

}  // namespace soapstone::timeline
