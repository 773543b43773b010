// The Engine's part in shards that go on at another server.
#include "wire/membership/membership.h"
#include "worker/engine.h"

namespace soapstone::worker {

using wire::Message;
using wire::MessageType;

void Engine::Say(ShardId shard, Message message, EngineOutput out) {
  asked_.unanswered.OnSent(shard, message);
  out.outbox->Send(std::move(message));
}

// Messages of two servers may overtake each other.
bool Engine::IsOfFormerHead(ShardId shard, const Message& reply) const {
  if (roster_ == nullptr || Index(shard) >= roster_->chains.size()) return false;
  return reply.epoch < roster_->chains[Index(shard)].links.front().since &&
         options_->fault != EngineFault::kFormerHead;
}

// Its new head has what the old one's answers stood for, and perhaps more.
void Engine::SayAgain(const wire::Roster& before, EngineOutput out) {
  if (options_->fault == EngineFault::kNothing) return;
  for (uint32_t k = 0; k < asked_.unanswered.shards(); ++k) {
    const ShardId shard{k};
    if (wire::HeadOf(before, shard) == wire::HeadOf(*roster_, shard)) continue;
    bool asks = false;
    for (Message message : asked_.unanswered.Of(shard)) {
      if (options_->fault == EngineFault::kPullAlone && message.type != MessageType::kPull)
        continue;
      asks = asks || message.type == MessageType::kPull;
      message.epoch = epoch_;
      out.outbox->Send(std::move(message));
    }
    // Where shards send unasked, what the old head did not come to send was sent by nobody.
    if (!asks && main_.has_value()) PullAgain(shard, out);
  }
}

}  // namespace soapstone::worker
