#include "wire/membership/membership.h"

#include <algorithm>

#include "base/leaf_tree.h"

namespace soapstone::wire {
namespace {

bool IsActive(const Member& member, Clock clock) {
  return !member.joining && member.start <= clock;
}

}  // namespace

const Member* FindMember(const Roster& roster, WorkerId worker) {
  const auto it = std::lower_bound(roster.workers.begin(), roster.workers.end(), worker,
                                   [](const Member& m, WorkerId w) { return m.worker < w; });
  return it != roster.workers.end() && it->worker == worker ? &*it : nullptr;
}

std::vector<WorkerId> ActiveWorkers(const Roster& roster, Clock clock) {
  std::vector<WorkerId> active;
  for (const Member& member : roster.workers) {
    if (IsActive(member, clock)) active.push_back(member.worker);
  }
  return active;
}

const Shares* SharesAt(const Roster& roster, Clock clock) {
  const Shares* in_force = nullptr;
  for (const Shares& shares : roster.shares) {
    if (shares.from <= clock) in_force = &shares;
  }
  return in_force;
}

std::vector<MicroBatchRange> MicroBatchRanges(const Roster& roster, Clock clock,
                                              uint32_t micro_batch_count) {
  std::vector<MicroBatchRange> ranges(roster.worker_count);
  const Shares* shares = SharesAt(roster, clock);
  uint32_t begin = 0;
  for (uint32_t rank = 0; rank < roster.worker_count; ++rank) {
    if (shares == nullptr) {
      ranges[rank] = LeavesOfRank(rank, roster.worker_count, micro_batch_count);
      continue;
    }
    // They sum to M, unless the scheduler is of another job: then at least nobody is out of range.
    const bool last = rank + 1 == roster.worker_count;
    const uint32_t end =
        last ? micro_batch_count : std::min(begin + shares->micro_batches[rank], micro_batch_count);
    ranges[rank] = {begin, end};
    begin = end;
  }
  return ranges;
}

OwnedMicroBatches MicroBatchesOwned(const Roster& roster, WorkerId worker, Clock clock,
                                    uint32_t micro_batch_count) {
  OwnedMicroBatches owned;
  const Member* me = FindMember(roster, worker);
  if (me == nullptr || !IsActive(*me, clock)) return owned;
  const std::vector<MicroBatchRange> ranges = MicroBatchRanges(roster, clock, micro_batch_count);
  owned.own = ranges[Index(worker)];
  const std::vector<WorkerId> active = ActiveWorkers(roster, clock);
  if (active.size() == roster.worker_count) return owned;
  std::vector<bool> present(roster.worker_count, false);
  for (WorkerId w : active) present[Index(w)] = true;
  std::vector<uint32_t> orphans;
  for (uint32_t rank = 0; rank < roster.worker_count; ++rank) {
    if (present[rank]) continue;
    for (uint32_t micro_batch = ranges[rank].begin; micro_batch < ranges[rank].end; ++micro_batch) {
      orphans.push_back(micro_batch);
    }
  }
  const auto me_at = std::find(active.begin(), active.end(), worker);
  const MicroBatchRange part =
      LeavesOfRank(static_cast<uint32_t>(me_at - active.begin()),
                   static_cast<uint32_t>(active.size()), static_cast<uint32_t>(orphans.size()));
  owned.taken_over.assign(orphans.begin() + part.begin, orphans.begin() + part.end);
  return owned;
}

}  // namespace soapstone::wire
