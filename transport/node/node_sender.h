// NodeSender: connects a node to others, and says by which of its three ways each message goes: a
// link through shared memory, a stream, or ZeroMQ. Who calls: NodeTransport. What comes it does not
// see.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/steady_clock.h"
#include "transport/node/known_nodes.h"
#include "transport/node/node_counts.h"
#include "transport/node/node_transport.h"
#include "transport/node/shm_connections.h"
#include "transport/node/zmq_links.h"
#include "transport/shm/shm_links.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/tcp_links.h"
#include "transport/transport.h"
#include "wire/message.h"

namespace soapstone::transport {

// Of one node.
struct NodeWays {
  ShmLinks* links;
  ShmConnections* local;
  ZmqLinks* zmq;
  TcpLinks* streams;
};

// Invariants
//  1. Messages to a node go in the order in which Send took them, but for their priorities on a
//     stream: none goes by one way while an earlier one waits for another.
//  2. In a job with keys no frame of more than kSecuredFrameBytesMax goes over ZeroMQ: its message
//     waits until there is a stream, and its node is lost where there will be none.
// One thread calls it.
class NodeSender {
 public:
  // Keeps the pointers, which outlive it.
  NodeSender(const ZmqOptions& options, const NodeWays& ways, KnownNodes* nodes, NodeCounts* counts)
      : options_(options), ways_(ways), nodes_(nodes), counts_(counts) {}

  absl::Status Connect(wire::Address peer, const std::string& endpoint);
  // As Transport::Send, of a message that Identity has stamped.
  absl::Status Send(wire::Address node, const wire::Message& message);
  absl::Status TellNote(const std::string& peer, bool ours, const Handshake& note);

  // While links are being taken: connects otherwise to who does not take its. After
  // ShmLinks::Progress.
  void FollowOpening();
  // Sends what waits since a link was not taken. Call it now and then.
  void Tend();
  bool waiting() const { return !untaken_.empty(); }
  std::vector<LostNode> TakeLost() { return std::exchange(lost_, {}); }

 private:
  absl::Status ConnectSocket(wire::Address peer, const std::string& endpoint);
  void ForgetConnection(wire::Address peer);
  absl::Status SendNow(wire::Address node, const wire::Message& message);
  bool SendUntaken(wire::Address node);
  absl::Status CheckHeader(uint64_t bytes_max = UINT64_MAX) const;
  absl::Status SendByLink(LinkId link, const wire::Message& message);
  absl::Status SendByStream(const std::string& peer, const wire::Message& message);
  absl::Status SendByZmq(const std::string& peer, bool ours, const wire::Message& message);
  uint64_t TooLarge(const wire::Message& message) const;
  void AskForStream(const ZmqSockets::Connection& connection);
  absl::Status AwaitStream(wire::Address node, const ZmqSockets::Connection* connection,
                           const std::string& peer, uint64_t bytes);
  std::string WhyNoStream(const ZmqSockets::Connection* connection, const std::string& peer,
                          SteadyTime since) const;

  const ZmqOptions options_;
  const NodeWays ways_;
  KnownNodes* const nodes_;
  NodeCounts* const counts_;
  // What was sent by links that were not taken, and could not be sent otherwise yet.
  std::map<wire::Address, std::deque<wire::Message>> untaken_;
  struct Need {  // of a stream, for something large
    std::string peer;
    SteadyTime since;
    bool lost = false;
  };
  std::map<wire::Address, Need> needs_;
  std::vector<LostNode> lost_;
  std::string header_;  // of the message that is being sent
};

}  // namespace soapstone::transport
