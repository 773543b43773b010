#include "consistency/gates/subscribed_gate.h"

#include <utility>

#include "consistency/gates/arrival_order.h"

namespace soapstone::consistency {

Actions SubscribedGate::OnJoin(WorkerId worker, Clock clock) {
  const Clock min_before = clocks_.Min();
  clocks_.Set(worker, clock);
  Actions actions;
  if (clocks_.Min() > min_before) ServeAll(&actions);
  return actions;
}

Actions SubscribedGate::OnLeave(WorkerId worker) {
  const Clock min_before = clocks_.Min();
  clocks_.Remove(worker);
  readers_.erase(worker);
  Actions actions;
  if (clocks_.Min() > min_before) ServeAll(&actions);
  return actions;
}

Actions SubscribedGate::OnPush(const PushEvent& push) {
  return {{OutOfOrder(clocks_, push).value_or(ActionKind::kApply), push.ticket}};
}

Actions SubscribedGate::OnClock(const ClockEvent& event) {
  if (event.completed <= clocks_.Of(event.worker)) return {};
  const Clock min_before = clocks_.Min();
  clocks_.Set(event.worker, event.completed);
  const auto reader = readers_.find(event.worker);
  if (reader != readers_.end()) reader->second = {event.completed, std::nullopt};
  Actions actions;
  if (clocks_.Min() > min_before) {
    ServeAll(&actions);
  } else if (reader != readers_.end()) {
    Serve(event.worker, &reader->second, &actions);
  }
  return actions;
}

Actions SubscribedGate::OnPull(const PullEvent& pull) {
  Reader& reader = readers_[pull.worker];
  reader = {pull.clock, std::nullopt};
  if (Admits(pull.clock)) return {{ActionKind::kReply, pull.ticket}};
  reader.pull = pull.ticket;
  return {{ActionKind::kPark, pull.ticket}};
}

void SubscribedGate::Serve(WorkerId worker, Reader* reader, Actions* actions) const {
  if (!Admits(reader->clock)) return;
  if (reader->pull.has_value()) {
    actions->push_back({ActionKind::kReply, *std::exchange(reader->pull, std::nullopt)});
  } else {
    actions->push_back({.kind = ActionKind::kSend, .worker = worker, .clock = reader->clock});
  }
}

void SubscribedGate::ServeAll(Actions* actions) {
  for (auto& [worker, reader] : readers_) Serve(worker, &reader, actions);
}

void SubscribedGate::AddTo(Fingerprint* f) const {
  clocks_.AddTo(f);
  f->Add(readers_.size());
  for (const auto& [worker, reader] : readers_) {
    f->Add(worker);
    f->Add(reader.clock);
    f->Add(reader.pull.has_value());
  }
}

}  // namespace soapstone::consistency
