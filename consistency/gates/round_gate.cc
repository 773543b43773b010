#include "consistency/gates/round_gate.h"

#include <algorithm>

namespace soapstone::consistency {

Actions RoundGate::OnJoin(WorkerId worker, Clock clock) {
  if (clocks_.members() == 0 && clock > version_) version_ = clock;
  clocks_.Set(worker, clock);
  Actions actions;
  FetchIfAsked(&actions);
  PublishIfComplete(&actions);
  return actions;
}

Actions RoundGate::OnLeave(WorkerId worker) {
  clocks_.Remove(worker);
  parked_.Erase(worker);
  Actions actions;
  FetchIfAsked(&actions);
  if (complete_ == Complete::kAllMembers && !fetches_) {
    // Its contributions leave with it: a replacement of its rank brings its own.
    for (auto& held : held_.buckets()) {
      std::erase_if(held, [&](const HeldPush& h) {
        if (h.worker == worker) actions.push_back({ActionKind::kDrop, h.ticket});
        return h.worker == worker;
      });
    }
  }
  PublishIfComplete(&actions);
  return actions;
}

Actions RoundGate::OnPush(const PushEvent& push) {
  if (push.clock < version_) return {{ActionKind::kDrop, push.ticket}};
  if (push.clock > version_) return {{ActionKind::kReject, push.ticket}};
  Actions actions;
  const bool of_the_tree = complete_ == Complete::kAllMicroBatches;
  const ActionKind kind = held_.Add(push, of_the_tree ? &actions : nullptr);
  actions.push_back({kind, push.ticket});
  PublishIfComplete(&actions);
  return actions;
}

Actions RoundGate::OnClock(const ClockEvent& event) {
  if (event.completed > clocks_.Of(event.worker)) clocks_.Set(event.worker, event.completed);
  Actions actions;
  PublishIfComplete(&actions);
  return actions;
}

Actions RoundGate::OnPull(const PullEvent& pull) {
  if (pull.clock == version_ && !fetching_ && !stale_) return {{ActionKind::kReply, pull.ticket}};
  if (pull.clock < version_) return {{ActionKind::kReject, pull.ticket}};
  parked_.Park(pull);
  Actions actions = {{ActionKind::kPark, pull.ticket}};
  FetchIfAsked(&actions);
  return actions;
}

Actions RoundGate::OnRestart(Clock start) {
  version_ = std::max(version_, start);
  stale_ = true;
  fetching_ = false;
  Actions actions;
  held_.Release(ActionKind::kDrop, &actions);
  return actions;
}

// The root knows a member by the time that it pulls, not before; and it knows the branch by the
// time that there is a member which begins later. Rounds in which no member takes part are
// completed empty.
void RoundGate::FetchIfAsked(Actions* actions) {
  const bool all_later = clocks_.members() > 0 && clocks_.Min() > version_;
  if (!stale_ || (parked_.empty() && !all_later)) return;
  stale_ = false;
  Fetch(actions);
}

void RoundGate::Fetch(Actions* actions) {
  fetching_ = true;
  actions->push_back({.kind = ActionKind::kFetch, .clock = version_});
}

Actions RoundGate::OnFetched(Clock clock) {
  if (!fetching_ || clock != version_) return {};
  fetching_ = false;
  Actions actions;
  parked_.Release(version_, &actions);
  PublishIfComplete(&actions);
  return actions;
}

bool RoundGate::RoundComplete() const {
  if (fetching_ || stale_) return false;
  if (clocks_.members() == 0 || clocks_.Min() <= version_) return false;
  if (complete_ == Complete::kAllMembers) return true;
  for (const auto& held : held_.buckets()) {
    uint32_t covered = 0;  // the held ranges never overlap: covering is a matter of counting
    for (const HeldPush& h : held) covered += h.micro_batches.size();
    if (covered != micro_batch_count_) return false;
  }
  return true;
}

void RoundGate::PublishIfComplete(Actions* actions) {
  // Members may be ahead by more than one round only after a join fixed its start clock beyond
  // this shard's version; each round still needs its own pushes, so at most one completes here.
  if (!RoundComplete()) return;
  for (auto& held : held_.buckets()) {
    for (const HeldPush& h : held) actions->push_back({ActionKind::kGather, h.ticket});
    if (!held.empty()) actions->push_back({ActionKind::kApplyGathered, {}});
    held.clear();
  }
  ++version_;
  if (!fetches_) return parked_.Release(version_, actions);
  actions->push_back({.kind = ActionKind::kTellRoot, .clock = version_});
  Fetch(actions);
}

void RoundGate::AddTo(Fingerprint* f) const {
  f->Add(version_);
  f->Add(uint32_t{fetching_} | uint32_t{stale_} << 1);
  clocks_.AddTo(f);
  held_.AddTo(f);
  parked_.AddTo(f);
}

}  // namespace soapstone::consistency
