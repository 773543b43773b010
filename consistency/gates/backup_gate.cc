#include "consistency/gates/backup_gate.h"

#include <algorithm>

namespace soapstone::consistency {

Actions BackupGate::OnJoin(WorkerId worker, Clock clock) {
  clocks_.Set(worker, clock);
  starts_[worker] = clock;
  return {};
}

// What it pushed stays: it may be chosen, or has been by now.
Actions BackupGate::OnLeave(WorkerId worker) {
  clocks_.Remove(worker);
  starts_.erase(worker);
  parked_.Erase(worker);
  Actions actions;
  CloseIfChosen(&actions);
  return actions;
}

Actions BackupGate::OnPush(const PushEvent& push) {
  if (push.clock < version_) return {{ActionKind::kLeaveOut, push.ticket}};
  if (push.clock > version_) return {{ActionKind::kReject, push.ticket}};
  // Where its micro-batches are here already its rank's former holder supplied them.
  return {{held_.Add(push), push.ticket}};
}

Actions BackupGate::OnClock(const ClockEvent& event) {
  if (event.completed <= clocks_.Of(event.worker)) return {};
  clocks_.Set(event.worker, event.completed);
  if (event.completed != version_ + 1) return {};  // it came late, or to the end of the run
  if (leads()) return OnHeld(seat_.shard, event.worker, version_);
  return {{.kind = ActionKind::kTellHeld, .worker = event.worker, .clock = version_}};
}

Actions BackupGate::OnPull(const PullEvent& pull) {
  if (pull.clock <= version_) return {{ActionKind::kReply, pull.ticket}};
  parked_.Park(pull);
  return {{ActionKind::kPark, pull.ticket}};
}

Actions BackupGate::OnHeld(ShardId from, WorkerId worker, Clock clock) {
  if (!leads() || clock != version_) return {};
  std::set<ShardId>& holders = holders_[worker];
  if (!holders.insert(from).second || holders.size() < seat_.shards) return {};
  complete_.push_back(worker);
  Actions actions;
  CloseIfChosen(&actions);
  return actions;
}

Actions BackupGate::OnChosen(Clock clock, absl::Span<const WorkerId> workers) {
  if (leads() || clock != version_) return {};
  chosen_.assign(workers.begin(), workers.end());
  Actions actions;
  Close(&actions);
  return actions;
}

size_t BackupGate::Needed() const {
  const auto members = std::count_if(starts_.begin(), starts_.end(),
                                     [&](const auto& entry) { return entry.second <= version_; });
  return static_cast<size_t>(std::max<int64_t>(1, members - int64_t{spare_}));
}

void BackupGate::CloseIfChosen(Actions* actions) {
  if (complete_.size() < Needed()) return;
  complete_.resize(Needed());
  std::sort(complete_.begin(), complete_.end());
  chosen_ = std::move(complete_);
  if (seat_.shards > 1) actions->push_back({.kind = ActionKind::kTellChosen, .clock = version_});
  Close(actions);
}

void BackupGate::Close(Actions* actions) {
  for (auto& held : held_.buckets()) {
    bool gathered = false;
    for (const HeldPush& h : held) {
      const bool in = std::binary_search(chosen_.begin(), chosen_.end(), h.worker);
      actions->push_back({in ? ActionKind::kGather : ActionKind::kLeaveOut, h.ticket});
      gathered = gathered || in;
    }
    if (gathered) actions->push_back({ActionKind::kApplyGathered, {}});
    held.clear();
  }
  ++version_;
  holders_.clear();
  complete_.clear();
  parked_.Release(version_, actions);
}

void BackupGate::AddTo(Fingerprint* f) const {
  f->Add(version_);
  clocks_.AddTo(f);
  f->Add(starts_.size());
  for (const auto& [worker, start] : starts_) {
    f->Add(worker);
    f->Add(start);
  }
  held_.AddTo(f);
  parked_.AddTo(f);
  f->Add(holders_.size());
  for (const auto& [worker, holders] : holders_) {
    f->Add(worker);
    f->Add(holders.size());
    for (const ShardId shard : holders) f->Add(shard);
  }
  f->Add(complete_.size());
  for (const WorkerId worker : complete_) f->Add(worker);
}

}  // namespace soapstone::consistency
