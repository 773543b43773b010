#include "worker/unanswered.h"

#include <variant>

namespace soapstone::worker {
namespace {

using wire::Message;
using wire::MessageType;

bool IsFinalPull(const Message& message) {
  const auto* pull = std::get_if<wire::Pull>(&message.body);
  return pull != nullptr && pull->final;
}

// Whether an answer of `clock` stands for it: pushes have the clock that they are of, a clock
// message that which it begins, a pull that which it is for.
bool IsBefore(const Message& message, Clock clock) {
  return message.type == MessageType::kPush ? message.clock < clock : message.clock <= clock;
}

}  // namespace

void Unanswered::OnSent(ShardId shard, const Message& message) {
  if (shards_.empty()) return;
  std::deque<Message>& said = shards_[Index(shard)];
  if (message.type == MessageType::kPull) {
    std::erase_if(said, [&](const Message& other) {
      return other.type == MessageType::kPull && other.clock == message.clock &&
             IsFinalPull(other) == IsFinalPull(message);
    });
  }
  if (message.type == MessageType::kPush) bytes_ += message.payload_bytes();
  said.push_back(message);
}

// The last values hold the updates of all clocks.
void Unanswered::OnAnswered(ShardId shard, const Message& reply) {
  if (shards_.empty()) return;
  const bool final = wire::As<wire::PullReply>(reply).final;
  std::erase_if(shards_[Index(shard)], [&](const Message& message) {
    if (!final && (IsFinalPull(message) || !IsBefore(message, reply.clock))) return false;
    if (message.type == MessageType::kPush) bytes_ -= message.payload_bytes();
    return true;
  });
}

void Unanswered::AddTo(Fingerprint* f) const {
  for (const std::deque<Message>& said : shards_) {
    f->Add(said.size());
    for (const Message& message : said) {
      f->Add(message.type);
      f->Add(message.clock);
      if (const auto* push = std::get_if<wire::Push>(&message.body)) {
        f->Add(push->bucket);
        f->Add(push->micro_batches.begin);
      }
    }
  }
}

}  // namespace soapstone::worker
