// HeldParcels: the payloads of parcels that a peer has in hand until its policy names them. The
// peer alone calls it. A value: copied with its peer, keeps no pointers.
//
// Invariant: a ticket is given out once, and names its payload until that is taken. To take it
// twice is our own mistake.
#pragma once

#include <cstdint>
#include <map>

#include "base/memory/buffer.h"
#include "consistency/action.h"

namespace soapstone::server {

class HeldParcels {
 public:
  consistency::Ticket Keep(Buffers payload);
  // REQUIRES: it is in hand.
  Buffers Take(consistency::Ticket ticket);
  size_t size() const { return payloads_.size(); }

 private:
  uint64_t next_ticket_ = 1;
  std::map<consistency::Ticket, Buffers> payloads_;
};

}  // namespace soapstone::server
