#include "server/peer/held_parcels.h"

#include <utility>

#include "glog/logging.h"

namespace soapstone::server {

using consistency::Ticket;

Ticket HeldParcels::Keep(Buffers payload) {
  const Ticket ticket{next_ticket_++};
  payloads_.emplace(ticket, std::move(payload));
  return ticket;
}

Buffers HeldParcels::Take(Ticket ticket) {
  const auto it = payloads_.find(ticket);
  CHECK(it != payloads_.end());
  Buffers payload = std::move(it->second);
  payloads_.erase(it);
  return payload;
}

}  // namespace soapstone::server
