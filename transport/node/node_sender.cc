#include "transport/node/node_sender.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/memory/shared_arena.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "transport/node/endpoint.h"
#include "wire/compact_header.h"
#include "wire/frame.h"

namespace soapstone::transport {
namespace {

// What there can be much of; the rest is as well off with ZeroMQ.
bool IsForStreams(wire::MessageType type) { return type >= wire::MessageType::kPush; }

}  // namespace

absl::Status NodeSender::Connect(wire::Address peer, const std::string& endpoint) {
  SOAP_RETURN_IF_ERROR(CheckEndpoint(endpoint));
  SOAP_ASSIGN_OR_RETURN(const security::PublicKey key, nodes_->KeyOf(peer));
  needs_.erase(peer);
  untaken_.erase(peer);
  if (options_.shared_memory && SharedArena::Enable() &&
      ways_.local->Connect(peer, endpoint, key)) {
    ForgetConnection(peer);
    return absl::OkStatus();
  }
  return ConnectSocket(peer, endpoint);
}

void NodeSender::ForgetConnection(wire::Address peer) {
  const ZmqSockets::Connection* before = ways_.zmq->sockets()->Find(peer);
  if (before == nullptr) return;
  ways_.streams->Drop(before->routing_id);
  nodes_->holders().Forget(before->routing_id);
  ways_.zmq->Disconnect(peer);
}

absl::Status NodeSender::ConnectSocket(wire::Address peer, const std::string& endpoint) {
  ForgetConnection(peer);
  SOAP_ASSIGN_OR_RETURN(const security::PublicKey key, nodes_->KeyOf(peer));
  SOAP_RETURN_IF_ERROR(ways_.zmq->Connect(peer, endpoint, key));
  const std::string& routing_id = ways_.zmq->sockets()->Find(peer)->routing_id;
  SOAP_ASSIGN_OR_RETURN(const std::optional<Handshake> first, nodes_->FirstNote(routing_id, key));
  if (first.has_value()) SOAP_RETURN_IF_ERROR(TellNote(routing_id, true, *first));
  // A roster names who was there.
  if (nodes_->identity().session() != 0) ways_.zmq->Expect(routing_id);
  return absl::OkStatus();
}

void NodeSender::FollowOpening() {
  for (ShmConnections::Refused& refused : ways_.local->Follow()) {
    LOG(INFO) << refused.node.ToString() << " is reached at " << refused.endpoint
              << ", not through shared memory: it did not take the link";
    if (const absl::Status made = ConnectSocket(refused.node, refused.endpoint); !made.ok()) {
      lost_.push_back({.node = refused.node, .why = std::string(made.message())});
      continue;
    }
    std::deque<wire::Message>& untaken = untaken_[refused.node];
    std::move(refused.untaken.begin(), refused.untaken.end(), std::back_inserter(untaken));
  }
  Tend();
}

void NodeSender::Tend() {
  for (auto it = untaken_.begin(); it != untaken_.end();) {
    const wire::Address node = it->first;
    ++it;
    SendUntaken(node);
  }
}

// False: some of it has to wait on.
bool NodeSender::SendUntaken(wire::Address node) {
  const auto found = untaken_.find(node);
  if (found == untaken_.end()) return true;
  for (std::deque<wire::Message>& untaken = found->second; !untaken.empty(); untaken.pop_front()) {
    const absl::Status sent = SendNow(node, untaken.front());
    if (absl::IsResourceExhausted(sent)) return false;
    if (!sent.ok()) counts_->Dropped();
  }
  untaken_.erase(found);
  return true;
}

absl::Status NodeSender::Send(wire::Address node, const wire::Message& message) {
  if (ways_.local->opening()) {
    ways_.links->Progress();
    FollowOpening();
  }
  if (!untaken_.empty() && !SendUntaken(node)) {
    return absl::ResourceExhaustedError("what was sent before waits");
  }
  return SendNow(node, message);
}

absl::Status NodeSender::SendNow(wire::Address node, const wire::Message& message) {
  if (const LinkId link = ways_.local->LinkTo(node); link != 0) {
    const bool opening = ways_.local->opening();
    if (opening && ways_.local->IsFull(node)) {
      return absl::ResourceExhaustedError("the link has not been taken yet");
    }
    absl::Status sent = SendByLink(link, message);
    if (opening && sent.ok()) ways_.local->Sent(node, message);
    return sent;
  }
  const ZmqSockets::Connection* connection = ways_.zmq->sockets()->Find(node);
  const Route* route = connection == nullptr ? nodes_->RouteTo(node) : nullptr;
  if (route != nullptr && route->link != 0) return SendByLink(route->link, message);
  if (connection == nullptr && route == nullptr) {
    return absl::NotFoundError(absl::StrCat("no route to ", node.ToString()));
  }
  const std::string& peer = connection != nullptr ? connection->routing_id : route->routing_id;
  if (ways_.streams->Carries(peer)) {
    if (!needs_.empty()) needs_.erase(node);
    return SendByStream(peer, message);
  }
  if (const uint64_t bytes = TooLarge(message); bytes > 0) {
    return AwaitStream(node, connection, peer, bytes);
  }
  SOAP_RETURN_IF_ERROR(SendByZmq(peer, connection != nullptr, message));
  if (connection != nullptr && IsForStreams(message.type)) AskForStream(*connection);
  return absl::OkStatus();
}

absl::Status NodeSender::CheckHeader(uint64_t bytes_max) const {
  if (header_.size() <= std::min<uint64_t>(bytes_max, options_.frame_limits.header_bytes_max)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("the message's header is too large");
}

absl::Status NodeSender::SendByLink(LinkId link, const wire::Message& message) {
  wire::EncodeLocalHeader(message, nodes_->identity().self(), &header_);
  SOAP_RETURN_IF_ERROR(CheckHeader());
  SOAP_RETURN_IF_ERROR(ways_.links->Send(link, header_, message.payload));
  counts_->Sent(Way::kLink, message, header_);
  return absl::OkStatus();
}

absl::Status NodeSender::SendByStream(const std::string& peer, const wire::Message& message) {
  wire::EncodeLocalHeader(message, nodes_->identity().self(), &header_);
  SOAP_RETURN_IF_ERROR(CheckHeader());
  SOAP_RETURN_IF_ERROR(ways_.streams->Send(peer, header_, message.payload, message.priority));
  counts_->Sent(Way::kStream, message, header_);
  return absl::OkStatus();
}

absl::Status NodeSender::SendByZmq(const std::string& peer, bool ours,
                                   const wire::Message& message) {
  header_ = wire::EncodeHeader(message, nodes_->identity().self());
  const bool secured = options_.keys != nullptr;
  SOAP_RETURN_IF_ERROR(CheckHeader(secured ? kSecuredFrameBytesMax : UINT64_MAX));
  const absl::Status sent = ways_.zmq->Send(peer, ours, header_, message.payload);
  if (!sent.ok()) {
    return absl::Status(sent.code(), absl::StrCat(message.to.ToString(), ": ", sent.message()));
  }
  counts_->Sent(Way::kZmq, message, header_);
  return absl::OkStatus();
}

absl::Status NodeSender::TellNote(const std::string& peer, bool ours, const Handshake& note) {
  const std::string frame = EncodeNote(note);
  SOAP_RETURN_IF_ERROR(ways_.zmq->Send(peer, ours, frame, {}));
  counts_->SentNote(frame.size());
  return absl::OkStatus();
}

void NodeSender::AskForStream(const ZmqSockets::Connection& connection) {
  const uint64_t session = nodes_->identity().session();
  if (!options_.streams || !IsTcp(connection.endpoint) || session == 0) return;
  ways_.streams->Ask(connection.routing_id, session, connection.endpoint);
}

// Bytes of the largest frame that ZeroMQ is not to carry; 0: there is none.
uint64_t NodeSender::TooLarge(const wire::Message& message) const {
  if (options_.keys == nullptr) return 0;
  uint64_t largest = 0;
  for (const Buffer& frame : message.payload) largest = std::max<uint64_t>(largest, frame.size());
  return largest > kSecuredFrameBytesMax ? largest : 0;
}

absl::Status NodeSender::AwaitStream(wire::Address node, const ZmqSockets::Connection* connection,
                                     const std::string& peer, uint64_t bytes) {
  if (connection != nullptr) AskForStream(*connection);
  Need& need = needs_[node];
  if (need.peer != peer) need = {.peer = peer, .since = SteadyNow()};
  const std::string why = WhyNoStream(connection, peer, need.since);
  if (why.empty()) return absl::ResourceExhaustedError("a stream is being made");
  if (!need.lost) {
    need.lost = true;
    const std::string line = absl::StrCat("frames of ", bytes, " bytes, with keys, need a stream, ",
                                          "and there is none: ", why);
    if (auto lost = nodes_->LostWith({.routing_id = peer}, line)) lost_.push_back(*std::move(lost));
  }
  return absl::UnavailableError("there is no stream");
}

// Empty: there may be one in a while.
std::string NodeSender::WhyNoStream(const ZmqSockets::Connection* connection,
                                    const std::string& peer, SteadyTime since) const {
  if (!options_.streams) return "cluster.transport is zeromq; set it to auto or sockets";
  if (connection != nullptr && !IsTcp(connection->endpoint)) {
    return absl::StrCat("they do not go to ", connection->endpoint, "; let it listen at tcp://");
  }
  const absl::Duration waited = SteadyNow() - since;
  std::string why = ways_.streams->WhyNone(peer, waited);
  if (connection != nullptr || !why.empty()) return why;
  // Who connected makes it.
  if (ways_.streams->IsMaking(peer) || waited < options_.stream_patience) return "";
  return absl::StrCat("the other side does not reach port ", ways_.streams->port(),
                      " of this node; open it, or set another by --stream_port");
}

}  // namespace soapstone::transport
