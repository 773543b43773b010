#include "server/shard/held_messages.h"

namespace soapstone::server {

using consistency::Ticket;
using wire::Message;
using wire::MessageType;

Ticket HeldMessages::Keep(Message message) {
  if (message.type == MessageType::kPush) bytes_ += message.payload_bytes();
  const Ticket ticket{next_ticket_++};
  messages_.emplace(ticket, std::move(message));
  return ticket;
}

HeldMessages::Entry HeldMessages::Take(Ticket ticket) {
  const auto it = messages_.find(ticket);
  if (it == messages_.end()) return {};
  if (it->second.type == MessageType::kPush) bytes_ -= it->second.payload_bytes();
  return messages_.extract(it);
}

}  // namespace soapstone::server
