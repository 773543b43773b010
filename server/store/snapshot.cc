#include "server/store/snapshot.h"

#include <algorithm>
#include <utility>

namespace soapstone::server {

std::optional<Snapshot> SnapshotTaker::Look(Nanos now, const Store& store) {
  const uint64_t samples = store.samples();
  if (samples == samples_) return std::nullopt;
  samples_ = samples;
  changed_at_ = now;
  if (samples / step_ == steps_) return std::nullopt;
  steps_ = samples / step_;
  return Snapshot{.at = now, .steps = steps_, .slices = store.Read()};
}

Snapshot SnapshotTaker::Last(const Store& store) const {
  return {.at = changed_at_, .steps = steps_, .slices = store.Read()};
}

std::optional<Cut> CutAssembler::Next() {
  if (waiting_.empty()) return std::nullopt;
  ++steps_;
  uint64_t least = 0;
  for (std::deque<Snapshot>& shard : waiting_) {
    while (!shard.empty() && shard.front().steps < steps_) shard.pop_front();
    if (shard.empty()) {
      --steps_;  // not yet
      return std::nullopt;
    }
    const uint64_t steps = shard.front().steps;
    least = &shard == &waiting_.front() ? steps : std::min(least, steps);
  }
  Cut cut;
  cut.slices.reserve(waiting_.size());
  for (const std::deque<Snapshot>& shard : waiting_) {
    cut.at = std::max(cut.at, shard.front().at);
    cut.slices.push_back(shard.front().slices);
  }
  steps_ = least;  // up to there the cut is the same
  return cut;
}

}  // namespace soapstone::server
