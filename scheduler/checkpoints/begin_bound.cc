#include "scheduler/checkpoints/begin_bound.h"

#include <algorithm>
#include <utility>

namespace soapstone::scheduler {

void BeginBound::Say(Clock clock, Clock every) {
  order_ = Order{.number = ++last_number_,
                 .clock = std::min((clock + every - 1) / every * every, options_.end),
                 .every = every};
  told_.clear();
}

void BeginBound::Bind(Clock clock, Clock every) { Say(clock, every); }

void BeginBound::Lift() {
  if (holds()) Say(options_.end, 1);
}

void BeginBound::OnBounded(const wire::Message& message) {
  const auto* bound = std::get_if<wire::Bound>(&message.body);
  if (bound == nullptr || !order_.has_value() || bound->number != order_->number) return;
  if (message.from.role != wire::Role::kWorker || message.clock < order_->clock) return;
  const auto told = told_.find(WorkerId{message.from.index});
  if (told == told_.end() || message.epoch < told->second.admitted) return;
  told->second.answer = message.clock;
}

const BeginBound::Told* BeginBound::Find(const wire::Member& member) const {
  const auto told = told_.find(member.worker);
  const bool same = told != told_.end() && told->second.admitted == member.admitted;
  return same ? &told->second : nullptr;
}

std::optional<Clock> BeginBound::At(const wire::Roster& roster) const {
  if (!order_.has_value() || roster.workers.empty()) return std::nullopt;
  for (const wire::Member& member : roster.workers) {
    const Told* told = Find(member);
    if (told == nullptr || told->answer != order_->clock) return std::nullopt;
  }
  return order_->clock;
}

void BeginBound::Look(Nanos now, const wire::Roster& roster, wire::Outbox* out) {
  if (!order_.has_value()) return;
  Clock latest = order_->clock;
  bool all = !roster.workers.empty();
  for (const wire::Member& member : roster.workers) {
    const Told* told = Find(member);
    all = all && told != nullptr && told->answer.has_value();
    if (all) latest = std::max(latest, *told->answer);
  }
  if (all && order_->clock >= options_.end) return order_.reset();
  if (all && latest > order_->clock) Say(latest, order_->every);
  for (const wire::Member& member : roster.workers) {
    const Told* told = Find(member);
    if (told != nullptr && (told->answer.has_value() || now - told->at < options_.repeat_ns)) {
      continue;
    }
    told_[member.worker] = {.admitted = member.admitted, .at = now, .answer = std::nullopt};
    wire::Message order;
    order.type = wire::MessageType::kBound;
    order.from = wire::Address::Scheduler();
    order.to = wire::Address::Of(member.worker);
    order.clock = order_->clock;
    order.body = wire::Bound{.number = order_->number};
    out->Send(std::move(order));
  }
}

void BeginBound::AddTo(Fingerprint* f) const {
  f->Add(last_number_);
  f->Add(order_.has_value());
  if (order_.has_value()) {
    f->Add(order_->clock);
    f->Add(order_->every);
  }
  f->Add(told_.size());
  for (const auto& [worker, told] : told_) {
    f->Add(worker);
    f->Add(told.admitted);
    f->Add(told.answer.value_or(kNoClock));
  }
}

}  // namespace soapstone::scheduler
