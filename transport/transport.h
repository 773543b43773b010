// Transport: moves messages between nodes; knows no roles beyond addresses, and decides nothing.
//
// Threading: one thread calls a Transport (the node's loop), except Wake. Order: messages from
// one node to another arrive in the order sent, for all addresses of those two nodes together,
// unless their priorities differ (wire::Message::priority), each once.
// Loss: connections that break are made again and go on where they were (docs/wire.md, Sessions).
// Where that is not possible, or another process is there, TakeLost says so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/steady_clock.h"
#include "transport/byte_counts.h"
#include "wire/message.h"

namespace soapstone::transport {

// Counted since construction.
struct TransportStats {
  uint64_t sent_messages = 0;
  BytesByCause sent;
  uint64_t shared_bytes = 0;       // of `sent`: through memory shared with the receiver
  uint64_t streamed_messages = 0;  // of sent_messages: by streams (transport/tcp/tcp_links.h)
  uint64_t received_messages = 0;
  BytesByCause received;           // without handshakes
  uint64_t rejected_messages = 0;  // malformed, wrong session, or from an unknown sender
  uint64_t dropped_messages = 0;   // no route, or the peer's queue is full
  uint64_t strangers = 0;          // connections held back or ended (transport/zmq/door.h)
  ProofFaults proof_faults;        // each ended a connection, or kept one from coming about
  HandshakeFailures handshakes;    // likewise
  SocketCounts sockets;            // since Close: of all TCP connections on which something came
};

// What was sent to the node and not taken is gone, and what it sent may be.
struct LostNode {
  wire::Address node;
  std::string why;  // "no connection for 5s"
  // The greatest heard from there: the rank may have another holder by now, who has not spoken yet.
  // Where we connected to the node, which we do anew for each holder: the greatest there is.
  Epoch epoch = kLastEpoch;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // Connects towards `peer` at `endpoint`; replaces an earlier route. Does not wait for the peer.
  virtual absl::Status Connect(wire::Address peer, const std::string& endpoint) = 0;

  // This node's own address: Address::Temporary until the rank is known, then the rank. Send stamps
  // it as sender, and as `from` of all but shard messages. Peers that this node connected to answer
  // it there as soon as they have received a message with it.
  virtual void SetSelf(wire::Address self) = 0;
  // Send stamps it. Messages of another session are rejected and counted; 0: not known yet.
  // Identity::Admit (transport/identity.h) has the rule.
  virtual void SetSession(uint64_t session) = 0;
  // In a job with keys: by which others know this process, to be said in its Hello; else empty.
  virtual std::string process_key() const { return ""; }
  // In a job with keys: the process with this key has the rank of `node`, as the scheduler says; no
  // other is heard as it, or sent to. Before anything is sent to, or taken from, the node.
  virtual void SetHolder(wire::Address /*node*/, const std::string& /*key*/) {}

  // Queues a message for `node` (a scheduler, server or worker; the caller has mapped shards to
  // their server). It leaves when the caller turns to Receive or Close, if not before. Never
  // blocks. Messages of equal `priority` keep their order. Errors: NotFound (no route, or the peer
  // that was there is gone), ResourceExhausted (queue full), Unavailable (the peer left meanwhile),
  // FailedPrecondition (before SetSelf, after Close), InvalidArgument (no receiver would take the
  // message).
  virtual absl::Status Send(wire::Address node, const wire::Message& message) = 0;

  // The next message, waiting until the deadline at most; empty when it passed, or on Wake.
  virtual std::optional<wire::Message> Receive(SteadyTime deadline) = 0;

  // Nodes to which the link was lost since the last call.
  virtual std::vector<LostNode> TakeLost() { return {}; }

  // Nodes whose connection to this one has ended since the last call, by rank or, where they have
  // not spoken under it, by temporary address. Each makes it again, or is gone: that is known once
  // it is heard. Who sent what Receive gave last is said again, if it came by a connection that had
  // ended. A hint, from tcp and links: not of every connection.
  virtual std::vector<wire::Address> TakeEnded() { return {}; }

  // Makes a Receive in progress return early. Any thread.
  virtual void Wake() = 0;

  // Hands over what is queued, waiting at most `linger`. No Send afterwards.
  virtual void Close(absl::Duration linger) = 0;

  // The endpoint peers connect to ("tcp://host:port"); empty when this node does not listen.
  virtual std::string endpoint() const = 0;
  virtual TransportStats stats() const = 0;
};

}  // namespace soapstone::transport
