#include "consistency/snapshot_rounds.h"

#include <algorithm>

namespace soapstone::consistency {

Actions SnapshotRounds::OnJoin(WorkerId worker, Clock clock) {
  if (clocks_.members() == 0 && clock > version_) version_ = clock;
  clocks_.Set(worker, clock);
  Actions actions;
  PublishIfComplete(&actions);
  return actions;
}

Actions SnapshotRounds::OnLeave(WorkerId worker) {
  clocks_.Remove(worker);
  parked_.erase(worker);
  Actions actions;
  if (complete_ == Complete::kAllMembers) {
    // Its contributions leave with it: a replacement of its rank brings its own.
    for (auto& held : held_) {
      std::erase_if(held, [&](const Held& h) {
        if (h.worker == worker) actions.push_back({ActionKind::kDrop, h.ticket});
        return h.worker == worker;
      });
    }
  }
  PublishIfComplete(&actions);
  return actions;
}

Actions SnapshotRounds::OnPush(const PushEvent& push) {
  if (push.clock < version_) return {{ActionKind::kDrop, push.ticket}};
  if (push.clock > version_ || Index(push.bucket) >= held_.size()) {
    return {{ActionKind::kReject, push.ticket}};
  }
  auto& held = held_[Index(push.bucket)];
  const auto after = std::find_if(held.begin(), held.end(),
                                  [&](const Held& h) { return h.leaves.end > push.leaves.begin; });
  if (after != held.end() && after->leaves.begin < push.leaves.end) {
    return {{ActionKind::kDrop, push.ticket}};  // some of its leaves are here already
  }
  held.insert(after, Held{push.leaves, push.worker, push.ticket});
  Actions actions = {{ActionKind::kHold, push.ticket}};
  PublishIfComplete(&actions);
  return actions;
}

Actions SnapshotRounds::OnClock(const ClockEvent& event) {
  if (event.completed > clocks_.Of(event.worker)) clocks_.Set(event.worker, event.completed);
  Actions actions;
  PublishIfComplete(&actions);
  return actions;
}

Actions SnapshotRounds::OnPull(const PullEvent& pull) {
  if (pull.clock == version_) return {{ActionKind::kReply, pull.ticket}};
  if (pull.clock < version_) return {{ActionKind::kReject, pull.ticket}};
  parked_.insert_or_assign(pull.worker, std::pair(pull.clock, pull.ticket));
  return {{ActionKind::kPark, pull.ticket}};
}

bool SnapshotRounds::RoundComplete() const {
  if (clocks_.members() == 0 || clocks_.Min() <= version_) return false;
  if (complete_ == Complete::kAllMembers) return true;
  for (const auto& held : held_) {
    uint32_t covered = 0;  // the held ranges never overlap: covering is a matter of counting
    for (const Held& h : held) covered += h.leaves.size();
    if (covered != leaf_count_) return false;
  }
  return true;
}

void SnapshotRounds::PublishIfComplete(Actions* actions) {
  // Members may be ahead by more than one round only after a join fixed its start clock beyond
  // this shard's version; each round still needs its own pushes, so at most one completes here.
  if (!RoundComplete()) return;
  for (auto& held : held_) {
    for (const Held& h : held) actions->push_back({ActionKind::kGather, h.ticket});
    if (!held.empty()) actions->push_back({ActionKind::kApplyGathered, {}});
    held.clear();
  }
  ++version_;
  for (auto it = parked_.begin(); it != parked_.end();) {
    if (it->second.first > version_) {
      ++it;
      continue;
    }
    actions->push_back({ActionKind::kReply, it->second.second});
    it = parked_.erase(it);
  }
}

void SnapshotRounds::AddTo(Fingerprint* f) const {
  f->Add(version_);
  clocks_.AddTo(f);
  for (const auto& held : held_) {
    f->Add(held.size());
    for (const Held& h : held) {
      f->Add(h.leaves.begin);
      f->Add(h.leaves.end);
      f->Add(h.worker);
    }
  }
  for (const auto& [worker, pull] : parked_) {
    f->Add(worker);
    f->Add(pull.first);
  }
}

}  // namespace soapstone::consistency
