// The Engine's part in clocks that others settle: the scheduler's bound, and rounds that went on
// without it.
#include "worker/engine.h"

namespace soapstone::worker {

using wire::Message;
using wire::MessageType;

// Who has said its end begins nothing more, whatever it is told.
void Engine::OnBound(Nanos now, const Message& message, EngineOutput out) {
  const auto* order = std::get_if<wire::Bound>(&message.body);
  if (order == nullptr || phase_ == Phase::kLeft) return;
  const std::optional<Clock> bound =
      schedule_.BindBy(order->number, message.clock, pulls_.asked_ahead() + 1);
  if (!bound.has_value()) return;
  Message answer = ToScheduler(MessageType::kBounded);
  answer.clock = *bound;
  answer.body = *order;
  out.outbox->Send(std::move(answer));
  if (schedule_.TakeReleased()) BeginNext(now, out);
}

bool Engine::FastForward(Clock clock, EngineOutput out) {
  progress_.skipped += schedule_.FastForward(clock);
  progress_.clock = schedule_.clock();
  const bool ended = schedule_.clock() >= options_->total_clocks;
  if (ended || schedule_.at_bound()) {
    if (ended && !options_->policy.decentralised()) SayEnd(out);
    main_.reset();
    pulls_.End();
    return false;
  }
  // What other shards have answered is of an earlier version.
  for (const ShardId shard : main_->FastForward(schedule_.clock())) PullAgain(shard, out);
  return true;
}

// The rounds went on to their end without us: no update of ours is to be waited for.
void Engine::SayEnd(EngineOutput out) {
  for (uint32_t k = 0; k < options_->layout->shard_count(); ++k) {
    Message message = ToScheduler(MessageType::kClock);
    message.to = options_->HomeOf(ShardId{k});
    message.clock = schedule_.clock();
    message.body = wire::Completion{};
    Say(ShardId{k}, std::move(message), out);
  }
}

}  // namespace soapstone::worker
