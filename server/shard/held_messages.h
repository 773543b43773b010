// HeldMessages: the pushes that a shard holds and the pulls that it has parked, each under the
// ticket by which its policy will name it. The shard alone calls it. A value: copied with its
// shard, keeps no pointers.
//
// Invariants
//  1. A ticket is given out once, and they ascend. It names its message until that is taken; then,
//     as one that was never given, it names none.
//  2. bytes() is the sum of the payloads of the pushes in hand, whatever became of others, and at
//     most `bytes_max`. Pulls do not count: the shard keeps one a worker.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/memory/recycling.h"
#include "base/memory/state_image.h"
#include "consistency/action.h"
#include "wire/message.h"
#include "wire/message_image.h"

namespace soapstone::server {

class HeldMessages {
  using ByTicket =
      std::map<consistency::Ticket, wire::Message, std::less<>,
               RecyclingAllocator<std::pair<const consistency::Ticket, wire::Message>>>;

 public:
  // One message, out of hand: it lives as long as this does. Empty where there was none.
  using Entry = ByTicket::node_type;

  explicit HeldMessages(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // `elsewhere`: bytes of pushes that the shard has in hand besides.
  bool HasRoomFor(const wire::Message& push, uint64_t elsewhere = 0) const {
    return bytes_ + elsewhere + push.payload_bytes() <= bytes_max_;
  }
  // REQUIRES: HasRoomFor, of a push.
  consistency::Ticket Keep(wire::Message message);
  Entry Take(consistency::Ticket ticket);

  uint64_t bytes() const { return bytes_; }
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.bytes_, self.next_ticket_, self.messages_);
  }

 private:
  uint64_t bytes_max_;
  uint64_t bytes_ = 0;
  uint64_t next_ticket_ = 1;
  ByTicket messages_;
};

}  // namespace soapstone::server
