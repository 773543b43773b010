#include "consistency/gates/dynamic_gate.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "consistency/gates/arrival_order.h"

namespace soapstone::consistency {

Actions DynamicGate::OnJoin(WorkerId worker, Clock clock) {
  clocks_.Set(worker, clock);
  paces_[worker] = {};
  Actions actions;
  ReleaseAdmitted(&actions);
  return actions;
}

Actions DynamicGate::OnLeave(WorkerId worker) {
  clocks_.Remove(worker);
  paces_.erase(worker);
  std::erase_if(parked_, [&](const auto& entry) { return entry.first.second == worker; });
  Actions actions;
  ReleaseAdmitted(&actions);
  return actions;
}

Actions DynamicGate::OnPush(const PushEvent& push) {
  return {{OutOfOrder(clocks_, push).value_or(ActionKind::kApply), push.ticket}};
}

Actions DynamicGate::OnClock(const ClockEvent& event) {
  if (event.completed <= clocks_.Of(event.worker)) return {};
  clocks_.Set(event.worker, event.completed);
  if (lower_ < upper_) {  // else there is nothing to choose
    Pace& pace = paces_[event.worker];
    pace.before = pace.latest;
    pace.latest = event.now;
  }
  Actions actions;
  ReleaseAdmitted(&actions);
  return actions;
}

Actions DynamicGate::OnPull(const PullEvent& pull) {
  if (Admits(pull.worker, pull.clock)) return {{ActionKind::kReply, pull.ticket}};
  parked_.insert_or_assign({pull.clock, pull.worker}, pull.ticket);
  return {{ActionKind::kPark, pull.ticket}};
}

bool DynamicGate::Admits(WorkerId worker, Clock clock) {
  Pace& pace = paces_[worker];
  const Clock gap = clock - clocks_.Min();
  if (gap <= lower_) {
    pace.credit = 0;
    return true;
  }
  if (gap > upper_) return false;
  if (pace.admitted == clock) return true;  // asked again, which costs nothing more
  if (pace.credit == 0 && clock == clocks_.Max()) pace.credit = Credit(pace);
  if (pace.credit == 0) return false;
  --pace.credit;
  pace.admitted = clock;
  return true;
}

const DynamicGate::Pace* DynamicGate::Slowest() const {
  for (const auto& [worker, pace] : paces_) {
    if (clocks_.Of(worker) == clocks_.Min()) return &pace;
  }
  return nullptr;
}

Clock DynamicGate::Credit(const Pace& reader) const {
  const Pace* slowest = Slowest();
  if (slowest == nullptr || reader.before < 0 || slowest->before < 0) return 0;  // no interval yet
  const Nanos step = reader.latest - reader.before;
  const Nanos slow_step = std::max<Nanos>(slowest->latest - slowest->before, 1);
  Clock best = 0;
  Nanos least = -1;
  for (Clock r = 0; r <= upper_ - lower_; ++r) {
    // The k that brings q's prediction nearest to p's: the one below it or the one above it.
    const Nanos reader_at = reader.latest + r * step;
    const Clock below =
        std::clamp<Clock>((reader_at - slowest->latest) / slow_step - 1, 0, upper_ - lower_);
    for (Clock k = below; k <= std::min(below + 1, upper_ - lower_); ++k) {
      const Nanos wait = std::abs(slowest->latest + (k + 1) * slow_step - reader_at);
      if (least >= 0 && wait >= least) continue;
      least = wait;
      best = r;
    }
  }
  return best;
}

void DynamicGate::ReleaseAdmitted(Actions* actions) {
  while (!parked_.empty() && clocks_.Min() >= parked_.begin()->first.first - lower_) {
    const auto& [key, ticket] = *parked_.begin();
    paces_[key.second].credit = 0;
    actions->push_back({ActionKind::kReply, ticket});
    parked_.erase(parked_.begin());
  }
}

Nanos DynamicGate::Newest() const {
  Nanos newest = -1;
  for (const auto& [worker, pace] : paces_) newest = std::max(newest, pace.latest);
  return newest;
}

// Times count by their distance from the newest: two states that differ by a shift behave alike.
void DynamicGate::AddTo(Fingerprint* f) const {
  clocks_.AddTo(f);
  const Nanos newest = Newest();
  for (const auto& [worker, pace] : paces_) {
    f->Add(worker);
    f->Add(pace.latest < 0 ? -1 : newest - pace.latest);
    f->Add(pace.before < 0 ? -1 : newest - pace.before);
    f->Add(pace.credit);
    f->Add(pace.admitted != kNoClock && pace.admitted >= clocks_.Of(worker));
  }
  f->Add(parked_.size());
  for (const auto& [key, ticket] : parked_) {
    f->Add(key.first);
    f->Add(key.second);
  }
}

}  // namespace soapstone::consistency
