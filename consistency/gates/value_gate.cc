#include "consistency/gates/value_gate.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "consistency/gates/arrival_order.h"

namespace soapstone::consistency {

Actions ValueGate::OnJoin(WorkerId worker, Clock clock) {
  clocks_.Set(worker, clock);
  Actions actions;
  Settle(&actions);
  return actions;
}

// Its updates that are kept stay: they are complete.
Actions ValueGate::OnLeave(WorkerId worker) {
  clocks_.Remove(worker);
  parked_.erase(worker);
  computing_.erase(worker);
  Actions actions;
  Settle(&actions);
  return actions;
}

Actions ValueGate::OnPush(const PushEvent& push) {
  if (const auto refusal = OutOfOrder(clocks_, push)) return {{*refusal, push.ticket}};
  held_.push_back({push.worker, push.bucket, push.clock, push.mass, push.ticket});
  Actions actions = {{ActionKind::kHold, push.ticket}};
  Settle(&actions);
  return actions;
}

Actions ValueGate::OnClock(const ClockEvent& event) {
  if (event.completed > clocks_.Of(event.worker)) clocks_.Set(event.worker, event.completed);
  const auto reader = computing_.find(event.worker);
  if (reader != computing_.end() && reader->second.clock < event.completed)
    computing_.erase(reader);
  Actions actions;
  Settle(&actions);
  return actions;
}

Actions ValueGate::OnPull(const PullEvent& pull) {
  // Asked again: it may take the earlier answer, so what it has not seen since then still counts.
  const auto reader = computing_.find(pull.worker);
  if (reader != computing_.end() && reader->second.clock == pull.clock) {
    return {{ActionKind::kReply, pull.ticket}};
  }
  computing_.erase(pull.worker);
  parked_.insert_or_assign(pull.worker, std::pair(pull.clock, pull.ticket));
  Actions actions = {{ActionKind::kPark, pull.ticket}};
  Settle(&actions);
  return actions;
}

bool ValueGate::Fits(const Held& update) const {
  const double bound = value_ / std::sqrt(static_cast<double>(update.clock) + 1);
  return std::all_of(computing_.begin(), computing_.end(), [&](const auto& peer) {
    if (peer.first == update.worker) return true;
    const auto before = peer.second.unseen.find({update.worker, update.bucket});
    return before == peer.second.unseen.end() || before->second + update.mass <= bound;
  });
}

void ValueGate::Apply(const Held& update, Actions* actions) {
  actions->push_back({ActionKind::kApply, update.ticket});
  for (auto& [peer, reader] : computing_) {
    if (peer != update.worker) reader.unseen[{update.worker, update.bucket}] += update.mass;
  }
}

bool ValueGate::HasHeld(WorkerId worker) const {
  return std::any_of(held_.begin(), held_.end(),
                     [&](const Held& update) { return update.worker == worker; });
}

void ValueGate::Settle(Actions* actions) {
  size_t fitting = 0;
  while (fitting < held_.size() && Fits(held_[fitting])) Apply(held_[fitting++], actions);
  held_.erase(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(fitting));
  for (auto it = parked_.begin(); it != parked_.end();) {
    if (HasHeld(it->first)) {
      ++it;
      continue;
    }
    const auto& [clock, ticket] = it->second;
    actions->push_back({ActionKind::kReply, ticket});
    computing_[it->first] = {clock, {}};
    it = parked_.erase(it);
  }
}

Clock ValueGate::Frontier() const {
  Clock frontier = clocks_.Min();
  for (const Held& update : held_) frontier = std::min(frontier, update.clock);
  return frontier;
}

double ValueGate::UnseenMax() const {
  double most = 0;
  for (const auto& [peer, reader] : computing_) {
    for (const auto& [source, mass] : reader.unseen) most = std::max(most, mass);
  }
  return most;
}

void ValueGate::AddTo(Fingerprint* f) const {
  clocks_.AddTo(f);
  f->Add(held_.size());
  for (const Held& update : held_) {
    f->Add(update.worker);
    f->Add(update.bucket);
    f->Add(update.clock);
    f->Add(std::bit_cast<uint64_t>(update.mass));
  }
  f->Add(parked_.size());
  for (const auto& [worker, pull] : parked_) {
    f->Add(worker);
    f->Add(pull.first);
  }
  for (const auto& [peer, reader] : computing_) {
    f->Add(peer);
    f->Add(reader.clock);
    f->Add(reader.unseen.size());
    for (const auto& [source, mass] : reader.unseen) {
      f->Add(source.first);
      f->Add(source.second);
      f->Add(std::bit_cast<uint64_t>(mass));
    }
  }
}

}  // namespace soapstone::consistency
