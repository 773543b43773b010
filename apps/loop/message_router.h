// MessageRouter: sends what actors put into their outboxes. Maps a shard to its server, reaches a
// node by its temporary address until it has spoken under its own, and keeps order towards a peer
// whose queue is full. Used by the loops of all roles.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/memory/memory_limit.h"
#include "transport/transport.h"
#include "wire/membership/membership.h"
#include "wire/message.h"
#include "wire/outbox.h"

namespace soapstone::apps {

// Invariants
//  1. Messages for one node leave in the order of Send; of those that wait, the most urgent first,
//     and none overtakes one of the same priority.
//  2. At most `waiting_bytes_max` wait, of all nodes together: beyond that the node for which most
//     wait counts as lost: what waits for it is dropped and nothing more is sent to it. One
//     message may always wait.
// One thread. `transport` outlives it.
class MessageRouter {
 public:
  // So many bytes a message that waits takes beside its payload.
  static constexpr uint64_t kMessageBytes = sizeof(wire::Message);

  MessageRouter(transport::Transport* transport, uint32_t shards_per_server,
                uint64_t waiting_bytes_max = MemoryLimit() / 8)
      : transport_(transport),
        shards_per_server_(shards_per_server),
        waiting_bytes_max_(waiting_bytes_max) {}

  // This node's own address: never connected to.
  void SetSelf(wire::Address self) { self_ = self; }
  // `node` was welcomed under the temporary address `at`; it is reached there while that works.
  void SetAlias(wire::Address node, wire::Address at);
  // Where shards are by the roster, and who has which rank, of which the transport hears. Workers
  // that are members no more, and ranks that have other holders now: what waits for the former ones
  // is dropped, that they were given up does not count, and the next ConnectWorkers connects anew,
  // be it to the same port. Call it before that. Others hear it by SetAlias.
  void Follow(const wire::Roster& roster);
  // Where shards are, alone.
  void SetChains(SharedList<wire::Chain> chains) { chains_ = std::move(chains); }

  // Sends or queues one message. Never blocks.
  void Send(wire::Message message);
  // Tries again what waits.
  void Retry();
  bool waiting() const { return !waiting_.empty(); }
  uint64_t waiting_bytes() const { return waiting_bytes_; }
  struct Backlog {
    wire::Address node;
    uint64_t bytes = 0;
  };
  // Of the node for which most waits; empty: nothing does.
  std::optional<Backlog> Greatest() const;
  // The node that takes messages for `to`: a shard's server, a peer's worker, else itself.
  // By the newest roster that was followed.
  wire::Address NodeOf(wire::Address to) const;
  static wire::Address NodeOf(wire::Address to, uint32_t shards_per_server);
  // Nodes lost since the last call: by invariant 2, or since they cannot be connected to.
  std::vector<transport::LostNode> TakeLost();

  // Connects to servers [begin, end) of the roster that are new or have moved.
  void ConnectServers(const wire::Roster& roster, uint32_t begin, uint32_t end);
  // The same with workers that others reach.
  void ConnectWorkers(const wire::Roster& roster);

 private:
  void ConnectTo(wire::Address node, const std::string& endpoint);
  bool TrySend(wire::Address node, const wire::Message& message);
  struct Queue {
    std::deque<wire::Message> messages;
    uint64_t bytes = 0;
  };
  void Enqueue(Queue* queue, wire::Message message);
  // Counts out the node for which most waits.
  void LoseTheLargest();
  // What is known of the rank's former holder.
  void Forget(wire::Address former);
  void SayRefused(const wire::Message& message, const absl::Status& why);

  transport::Transport* transport_;
  uint32_t shards_per_server_;
  uint64_t waiting_bytes_max_;
  uint64_t waiting_bytes_ = 0;
  wire::Address self_;
  std::map<wire::Address, wire::Address> aliases_;
  std::map<wire::Address, Queue> waiting_;  // never an empty queue
  std::map<wire::Address, std::string> endpoints_;
  std::map<WorkerId, Epoch> admitted_;
  SharedList<wire::Chain> chains_;
  std::set<wire::Address> lost_;
  std::vector<transport::LostNode> to_tell_;  // of them
  std::set<wire::MessageType> refused_;       // by our own checks; each kind is said once
};

}  // namespace soapstone::apps
