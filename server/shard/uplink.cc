#include "server/shard/uplink.h"

namespace soapstone::server {

using wire::Address;
using wire::Message;
using wire::MessageType;

Uplink::Uplink(ShardId branch, uint32_t root_shards)
    : self_(Address::Of(branch)),
      root_(Address::Of(consistency::RootOf(branch, root_shards))),
      group_(WorkerId{consistency::GroupOfBranch(branch, root_shards)}) {}

Message Uplink::ToRoot(MessageType type, Epoch epoch, Clock clock) const {
  Message message;
  message.type = type;
  message.from = self_;
  message.to = root_;
  message.epoch = epoch;
  message.worker = group_;
  message.clock = clock;
  return message;
}

void Uplink::Push(Epoch epoch, const GatheredUpdate& gathered, Buffers payload, wire::Outbox* out) {
  const std::vector<Contribution>& parts = gathered.parts();
  Message push = ToRoot(MessageType::kPush, epoch, gathered.clock());
  wire::Push body = {
      .bucket = gathered.bucket(),
      .micro_batches = {parts.front().micro_batches.begin, parts.back().micro_batches.end},
      .micro_batch_count = gathered.micro_batch_count(),
      .batch_samples = parts.front().batch_samples};
  for (const Contribution& part : parts) body.samples += part.samples;
  push.body = body;
  push.payload = std::move(payload);
  ++pushes_;
  out->Send(std::move(push));
}

void Uplink::Complete(Epoch epoch, Clock clock, wire::Outbox* out) {
  Message message = ToRoot(MessageType::kClock, epoch, clock);
  message.body = wire::Completion{.pushes = std::exchange(pushes_, 0)};
  out->Send(std::move(message));
}

void Uplink::Fetch(Epoch epoch, Clock clock, wire::Outbox* out) {
  Message pull = ToRoot(MessageType::kPull, epoch, clock);
  pull.body = wire::Pull{};
  out->Send(std::move(pull));
}

void Uplink::FetchFinal(Epoch epoch, Clock clock, wire::Outbox* out) {
  if (std::exchange(final_asked_, true)) return;
  Message pull = ToRoot(MessageType::kPull, epoch, clock);
  pull.body = wire::Pull{.final = true};
  out->Send(std::move(pull));
}

}  // namespace soapstone::server
