#include "consistency/gates/batch_gate.h"

#include <algorithm>

#include "consistency/gates/arrival_order.h"

namespace soapstone::consistency {

Actions BatchGate::OnJoin(WorkerId worker, Clock clock) {
  clocks_.Set(worker, clock);
  return OnDrain();
}

Actions BatchGate::OnLeave(WorkerId worker) {
  clocks_.Remove(worker);
  return OnDrain();
}

Actions BatchGate::OnPush(const PushEvent& push) {
  if (const auto refusal = OutOfOrder(clocks_, push)) return {{*refusal, push.ticket}};
  if (Index(push.bucket) >= held_.size()) return {{ActionKind::kReject, push.ticket}};
  const double n = static_cast<double>(std::min<uint64_t>(batches_, clocks_.members()));
  const double staleness = static_cast<double>(std::max<uint64_t>(push.staleness, 1));
  const float weight = rate_each_ ? static_cast<float>(n / staleness) : 1.0f;
  std::vector<Held>& held = held_[Index(push.bucket)];
  held.push_back({push.worker, push.clock, push.ticket, weight});
  Actions actions = {{ActionKind::kHold, push.ticket}};
  if (held.size() >= std::max<size_t>(clocks_.members() / batches_, 1)) ApplyHeld(&held, &actions);
  return actions;
}

Actions BatchGate::OnClock(const ClockEvent& event) {
  if (event.completed > clocks_.Of(event.worker)) clocks_.Set(event.worker, event.completed);
  return {};
}

Actions BatchGate::OnPull(const PullEvent& pull) { return {{ActionKind::kReply, pull.ticket}}; }

Actions BatchGate::OnDrain() {
  Actions actions;
  for (auto& held : held_) ApplyHeld(&held, &actions);
  return actions;
}

void BatchGate::ApplyHeld(std::vector<Held>* held, Actions* actions) const {
  if (held->empty()) return;
  for (const Held& push : *held) {
    actions->push_back({ActionKind::kGather, push.ticket, push.weight});
  }
  actions->push_back({ActionKind::kApplyGathered});
  held->clear();
}

Clock BatchGate::Frontier() const {
  Clock frontier = clocks_.Min();
  for (const auto& held : held_) {
    for (const Held& push : held) frontier = std::min(frontier, push.clock);
  }
  return frontier;
}

void BatchGate::AddTo(Fingerprint* f) const {
  clocks_.AddTo(f);
  for (const auto& held : held_) {
    f->Add(held.size());
    for (const Held& push : held) {
      f->Add(push.worker);
      f->Add(push.clock);
    }
  }
}

}  // namespace soapstone::consistency
