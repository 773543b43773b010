// SchedulerMessages: what the scheduler sends, with the session and the epoch that each message
// carries. A value of the coordinator's, which decides what is sent to whom.
#pragma once

#include <utility>

#include "base/ids.h"
#include "wire/header_fields.h"
#include "wire/message.h"
#include "wire/outbox.h"

namespace soapstone::scheduler {

// Invariants: the epoch only grows; who is refused does not learn the session.
class SchedulerMessages {
 public:
  SchedulerMessages(uint64_t session, uint32_t shards) : session_(session), shards_(shards) {}

  Epoch epoch() const { return epoch_; }

  // A message whose body, if it has one, says nothing.
  wire::Message To(wire::Address to, wire::MessageType type) const {
    wire::Message message;
    message.type = type;
    message.from = wire::Address::Scheduler();
    message.to = to;
    message.session = session_;
    message.epoch = epoch_;
    message.body = wire::BodyFrom(type, {});
    return message;
  }
  wire::Message Welcome(wire::Address to, wire::Welcome welcome) const {
    wire::Message message = To(to, wire::MessageType::kWelcome);
    message.body = welcome;
    return message;
  }
  wire::Message Start(const wire::Member& member) const {
    wire::Message message = To(wire::Address::Of(member.worker), wire::MessageType::kStart);
    message.clock = member.start;
    return message;
  }
  // `type`: kRefuse, kWait or kShutdown. Who has no place learns no session.
  wire::Message Notice(wire::Address to, wire::MessageType type, wire::Notice notice) const {
    wire::Message message = To(to, type);
    if (type != wire::MessageType::kShutdown) message.session = 0;
    message.body = std::move(notice);
    return message;
  }
  // A new epoch: its roster goes to every shard, server and member. Where shards have replicas
  // their servers hand it to them.
  void Publish(const wire::Roster& roster, wire::Outbox* out) {
    ++epoch_;
    const auto send = [&](wire::Address to) {
      wire::Message message = To(to, wire::MessageType::kRoster);
      message.body = roster;
      out->Send(std::move(message));
    };
    const uint32_t shards = roster.chains.empty() ? shards_ : 0;
    for (uint32_t k = 0; k < shards; ++k) send(wire::Address::Of(ShardId{k}));
    for (const wire::ServerEntry& entry : roster.servers) send(wire::Address::Of(entry.server));
    for (const wire::Member& member : roster.workers) send(wire::Address::Of(member.worker));
  }

 private:
  uint64_t session_;
  uint32_t shards_;
  Epoch epoch_ = 0;
};

}  // namespace soapstone::scheduler
