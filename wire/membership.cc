#include "wire/membership.h"

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

OwnedLeaves LeavesOwned(const Roster& roster, WorkerId worker, Clock clock, uint32_t leaf_count) {
  OwnedLeaves owned;
  const Member* me = FindMember(roster, worker);
  if (me == nullptr || !IsActive(*me, clock)) return owned;
  owned.own = LeavesOfRank(Index(worker), roster.worker_count, leaf_count);
  const std::vector<WorkerId> active = ActiveWorkers(roster, clock);
  if (active.size() == roster.worker_count) return owned;
  std::vector<bool> present(roster.worker_count, false);
  for (WorkerId w : active) present[Index(w)] = true;
  for (uint32_t rank = 0; rank < roster.worker_count; ++rank) {
    if (present[rank]) continue;
    const LeafRange orphaned = LeavesOfRank(rank, roster.worker_count, leaf_count);
    for (uint32_t leaf = orphaned.begin; leaf < orphaned.end; ++leaf) {
      if (active[leaf % active.size()] == worker) owned.adopted.push_back(leaf);
    }
  }
  return owned;
}

}  // namespace soapstone::wire
