// Mailer: sends what actors put into their outboxes. Maps a shard to its server, reaches a node by
// its temporary address until it has spoken under its own, and keeps order towards a peer whose
// queue is full. Used by the loops of all roles.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "transport/transport.h"
#include "wire/membership.h"
#include "wire/message.h"
#include "wire/outbox.h"

namespace soapstone::apps {

// Invariants
//  1. Messages for one node leave in the order of Send; of those that wait, the most urgent first,
//     and none overtakes one of the same priority.
//  2. At most `waiting_max` messages wait for a node; one more, and the node counts as lost: what
//     waits is dropped and nothing more is sent to it.
// One thread. `transport` outlives it.
class Mailer {
 public:
  Mailer(transport::Transport* transport, uint32_t shards_per_server, size_t waiting_max = 16384)
      : transport_(transport), shards_per_server_(shards_per_server), waiting_max_(waiting_max) {}

  // This node's own address: never connected to.
  void SetSelf(wire::Address self) { self_ = self; }
  // `node` was welcomed under the temporary address `at`; it is reached there while that works.
  void SetAlias(wire::Address node, wire::Address at) { aliases_[node] = at; }

  // Sends or queues one message. Never blocks.
  void Send(wire::Message message);
  // Tries again what waits.
  void Retry();
  bool waiting() const { return !waiting_.empty(); }
  // The node that takes messages for `to`: a shard's server, a peer's worker, else itself.
  wire::Address NodeOf(wire::Address to) const { return NodeOf(to, shards_per_server_); }
  static wire::Address NodeOf(wire::Address to, uint32_t shards_per_server);
  // Nodes lost since the last call (invariant 2).
  std::vector<wire::Address> TakeLost();

  // Connects to servers [begin, end) of the roster that are new or have moved.
  void ConnectServers(const wire::Roster& roster, uint32_t begin, uint32_t end);
  // The same with workers that others reach.
  void ConnectWorkers(const wire::Roster& roster);

 private:
  void ConnectTo(wire::Address node, const std::string& endpoint);
  bool TrySend(wire::Address node, const wire::Message& message);
  void SayRefused(const wire::Message& message, const absl::Status& why);

  transport::Transport* transport_;
  uint32_t shards_per_server_;
  size_t waiting_max_;
  wire::Address self_;
  std::map<wire::Address, wire::Address> aliases_;
  std::map<wire::Address, std::deque<wire::Message>> waiting_;  // never an empty queue
  std::map<wire::Address, std::string> endpoints_;
  std::map<wire::Address, bool> lost_;   // true: already told
  std::set<wire::MessageType> refused_;  // by our own checks; each kind is said once
};

}  // namespace soapstone::apps
