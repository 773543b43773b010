#include "consistency/gates/bounded_gate.h"

namespace soapstone::consistency {

Actions BoundedGate::OnJoin(WorkerId worker, Clock clock) {
  clocks_.Set(worker, clock);
  Actions actions;
  ReleaseAdmitted(&actions);
  return actions;
}

Actions BoundedGate::OnLeave(WorkerId worker) {
  clocks_.Remove(worker);
  std::erase_if(parked_, [&](const auto& entry) { return entry.first.second == worker; });
  Actions actions;
  ReleaseAdmitted(&actions);
  return actions;
}

Actions BoundedGate::OnPush(const PushEvent& push) {
  const Clock applied = clocks_.Of(push.worker);
  if (push.clock < applied) return {{ActionKind::kDrop, push.ticket}};
  if (push.clock > applied) return {{ActionKind::kReject, push.ticket}};
  return {{ActionKind::kApply, push.ticket}};
}

Actions BoundedGate::OnClock(const ClockEvent& event) {
  if (event.completed <= clocks_.Of(event.worker)) return {};
  const Clock min_before = clocks_.Min();
  clocks_.Set(event.worker, event.completed);
  Actions actions;
  if (clocks_.Min() > min_before) ReleaseAdmitted(&actions);
  return actions;
}

Actions BoundedGate::OnPull(const PullEvent& pull) {
  if (Admits(pull.clock)) return {{ActionKind::kReply, pull.ticket}};
  parked_.insert_or_assign({pull.clock, pull.worker}, pull.ticket);
  return {{ActionKind::kPark, pull.ticket}};
}

void BoundedGate::ReleaseAdmitted(Actions* actions) {
  while (!parked_.empty() && Admits(parked_.begin()->first.first)) {
    actions->push_back({ActionKind::kReply, parked_.begin()->second});
    parked_.erase(parked_.begin());
  }
}

void BoundedGate::AddTo(Fingerprint* f) const {
  clocks_.AddTo(f);
  f->Add(parked_.size());
  for (const auto& [key, ticket] : parked_) {
    f->Add(key.first);
    f->Add(key.second);
  }
}

}  // namespace soapstone::consistency
