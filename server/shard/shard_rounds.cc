#include "server/shard/shard_rounds.h"

#include <utility>
#include <variant>

namespace soapstone::server {

using wire::Address;
using wire::Message;
using wire::MessageType;

Message ShardRounds::Word(MessageType type, Epoch epoch, Clock clock) const {
  Message message;
  message.type = type;
  message.from = Address::Of(self_);
  message.epoch = epoch;
  message.clock = clock;
  return message;
}

void ShardRounds::TellHeld(Epoch epoch, WorkerId worker, Clock clock, wire::Outbox* out) const {
  Message message = Word(MessageType::kHeld, epoch, clock);
  message.to = Address::Of(ShardId{0});
  message.worker = worker;
  out->Send(std::move(message));
}

void ShardRounds::TellChosen(Epoch epoch, absl::Span<const WorkerId> chosen, Clock clock,
                             wire::Outbox* out) const {
  Message message = Word(MessageType::kChosen, epoch, clock);
  message.body = wire::WorkerSet{{chosen.begin(), chosen.end()}};
  for (uint32_t k = 1; k < shards_; ++k) {
    message.to = Address::Of(ShardId{k});
    out->Send(message);
  }
}

bool ShardRounds::Takes(const Message& message, uint32_t worker_count) const {
  if (message.from.role != wire::Role::kShard || message.from.index >= shards_) return false;
  if (message.type == MessageType::kHeld) return Index(message.worker) < worker_count;
  return message.from.index == 0 && std::holds_alternative<wire::WorkerSet>(message.body);
}

}  // namespace soapstone::server
