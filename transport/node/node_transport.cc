#include "transport/node/node_transport.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "base/steady_clock.h"
#include "glog/logging.h"
#include "transport/identity.h"
#include "transport/node/endpoint.h"
#include "transport/node/node_counts.h"
#include "transport/node/node_wait.h"
#include "transport/node/numbered_links.h"
#include "transport/node/shm_connections.h"
#include "transport/node/way_options.h"
#include "transport/node/zmq_links.h"
#include "transport/rejections.h"
#include "transport/shm/shm_links.h"
#include "transport/tcp/tcp_links.h"
#include "transport/zmq/zap_handler.h"
#include "transport/zmq/zmq_sockets.h"
#include "wire/compact_header.h"

namespace soapstone::transport {
namespace {

constexpr int kLocalInARow = 16;  // messages of links to a look at sockets
constexpr int kLookEvery = 64;    // messages to a look at all streams, and at sockets
constexpr absl::Duration kUnfinishedWait = absl::Milliseconds(20);  // while links are made
constexpr absl::Duration kOpeningLook = absl::Milliseconds(1);      // in Close
constexpr int kTendEveryMessages = 64;                              // messages
constexpr int kProgressEvery = 256;  // messages to a look at links' sockets

// Where a node that we did not connect to was heard.
struct Route {
  std::string routing_id;  // of the ROUTER's peer
  LinkId link = 0;         // or this, where it is not 0
  friend bool operator==(const Route&, const Route&) = default;
};

// What there can be much of; the rest is as well off with ZeroMQ.
bool IsForStreams(wire::MessageType type) { return type >= wire::MessageType::kPush; }

class NodeTransport final : public Transport {
 public:
  explicit NodeTransport(const ZmqOptions& options)
      : options_(options),
        identity_(options.frame_limits),
        routes_(options.route_limits),
        local_links_(LocalOptionsOf(options)),
        local_(&local_links_, static_cast<size_t>(options.queue_messages_max)),
        zmq_(SocketOptionsOf(options), options.door, NumberedOptionsOf(options),
             // One frame beyond the limit is kept (and one for the header), so that Decode sees
             // that there are too many.
             options.frame_limits.payload_frames_max + 2, &rejections_),
        streams_(StreamOptionsOf(options),
                 [this](const std::string& peer, bool ours, const Handshake& note) {
                   return TellNote(peer, ours, note);
                 }),
        wait_(&local_links_, &streams_, zmq_.sockets()) {}
  ~NodeTransport() override { Close(absl::ZeroDuration()); }

  absl::Status Open();

  absl::Status Connect(wire::Address peer, const std::string& endpoint) override;
  void SetSelf(wire::Address self) override { identity_.SetSelf(self); }
  void SetSession(uint64_t session) override { identity_.SetSession(session); }
  absl::Status Send(wire::Address node, const wire::Message& message) override;
  std::optional<wire::Message> Receive(SteadyTime deadline) override;
  std::vector<LostNode> TakeLost() override { return std::exchange(lost_, {}); }
  void Wake() override { wait_.Wake(); }
  void Close(absl::Duration linger) override;
  std::string endpoint() const override { return endpoint_; }
  TransportStats stats() const override {
    TransportStats stats = counts_.With(streams_.counts());
    stats.rejected_messages = rejections_.count();
    stats.strangers = zmq_.sockets().strangers();
    stats.proof_faults.links = local_links_.unproven();
    stats.sent.framing += zmq_.framing_sent();
    return stats;
  }

 private:
  enum class Taken { kNothing, kRejected, kMessage };

  absl::Status SendStamped(wire::Address node, const wire::Message& message);
  absl::Status CheckHeader() const;
  absl::Status SendLocally(LinkId link, const wire::Message& message);
  absl::Status ConnectSocket(wire::Address peer, const std::string& endpoint);
  void ForgetConnection(wire::Address peer);
  void FollowOpening();
  void FinishOpening(SteadyTime deadline);
  Taken TakeOne(wire::Message* message);
  Taken TakeLocal(wire::Message* message);
  Taken TakeStream(wire::Message* message);
  Taken TakeSocket(wire::Message* message);
  Taken Judge(absl::StatusOr<wire::Message> accepted, wire::Message* message);
  absl::StatusOr<wire::Message> Accept(absl::Span<const Buffer> frames, const Route* route, Way way,
                                       wire::Role role = wire::Role::kNone);
  absl::Status SendByStream(const std::string& peer, const wire::Message& message);
  absl::Status SendByZmq(const ZmqSockets::Connection* connection, const Route* route,
                         const wire::Message& message);
  bool TakeEarly();
  void Tend();
  void Lose(const LostLink& lost);
  void LoseLocal(const LostLocalLink& lost);
  absl::Status TellNote(const std::string& peer, bool ours, const Handshake& note);
  void TakeNote(const ZmqSockets::Source& from, const Buffer& frame);
  bool Poll(SteadyTime deadline);

  const ZmqOptions options_;
  std::string endpoint_;
  bool closed_ = false;

  Identity identity_;
  RouteTable<Route> routes_;
  ShmLinks local_links_;
  ShmConnections local_;
  Rejections rejections_;
  ZmqLinks zmq_;
  TcpLinks streams_;
  NodeWait wait_;
  std::vector<LostNode> lost_;
  std::optional<wire::Message> early_;  // came while a Send waited for room
  int since_tend_ = 0;
  int local_in_a_row_ = 0;
  int since_look_ = 0;
  int since_progress_ = 0;
  std::string header_;       // of the message that is being sent
  std::string stream_peer_;  // scratch of TakeStream
  Buffers frames_;           // scratch of TakeOne
  NodeCounts counts_;
};

absl::Status NodeTransport::Open() {
  if (options_.keys != nullptr) identity_.RequireRoles();
  SOAP_RETURN_IF_ERROR(wait_.Open());
  SOAP_RETURN_IF_ERROR(zmq_.sockets()->Open());
  if (options_.listen.empty()) return absl::OkStatus();
  SOAP_ASSIGN_OR_RETURN(const std::string address, BindAddress(options_.listen));
  SOAP_RETURN_IF_ERROR(zmq_.sockets()->Listen(address));
  endpoint_ = ConnectAddress(options_.listen, zmq_.sockets()->bound_to(), options_.advertise_host);
  if (options_.shared_memory) local_.Listen(endpoint_);
  if (options_.streams && IsTcp(endpoint_)) streams_.OfferAt(zmq_.sockets()->bound_to());
  return absl::OkStatus();
}

absl::Status NodeTransport::Connect(wire::Address peer, const std::string& endpoint) {
  if (closed_) return absl::FailedPreconditionError("the transport is closed");
  SOAP_RETURN_IF_ERROR(CheckEndpoint(endpoint));
  if (options_.shared_memory && SharedArena::Enable() && local_.Connect(peer, endpoint)) {
    ForgetConnection(peer);
    return absl::OkStatus();
  }
  return ConnectSocket(peer, endpoint);
}

void NodeTransport::ForgetConnection(wire::Address peer) {
  const ZmqSockets::Connection* before = zmq_.sockets()->Find(peer);
  if (before == nullptr) return;
  streams_.Drop(before->routing_id);
  zmq_.Disconnect(peer);
}

absl::Status NodeTransport::ConnectSocket(wire::Address peer, const std::string& endpoint) {
  const ZmqSockets::Connection* before = zmq_.sockets()->Find(peer);
  if (before != nullptr) streams_.Drop(before->routing_id);
  SOAP_RETURN_IF_ERROR(zmq_.Connect(peer, endpoint));
  if (identity_.session() == 0) return absl::OkStatus();
  // Until something of the session has come the other side takes little (transport/zmq/door.h).
  const Handshake here = {.word = Handshake::Word::kHere, .session = identity_.session()};
  const std::string& routing_id = zmq_.sockets()->Find(peer)->routing_id;
  SOAP_RETURN_IF_ERROR(TellNote(routing_id, true, here));
  zmq_.Expect(routing_id);  // a roster names who was there
  return absl::OkStatus();
}

absl::Status NodeTransport::Send(wire::Address node, const wire::Message& message) {
  if (closed_) return absl::FailedPreconditionError("the transport is closed");
  SOAP_ASSIGN_OR_RETURN(const wire::Message stamped, identity_.Stamp(node, message));
  absl::Status sent = SendStamped(node, stamped);
  if (absl::IsResourceExhausted(sent) && TakeEarly()) sent = SendStamped(node, stamped);
  if (!sent.ok()) counts_.Dropped();
  return sent;
}

// Acknowledgements make room, and who sends without receiving must come on too: takes what is
// there, up to the first message, which waits for Receive. False: one waits already.
bool NodeTransport::TakeEarly() {
  if (early_.has_value()) return false;
  streams_.Look();
  wire::Message message;
  if (TakeOne(&message) == Taken::kMessage) early_ = std::move(message);
  Tend();
  return true;
}

void NodeTransport::FollowOpening() {
  for (const ShmConnections::Refused& refused : local_.Follow()) {
    LOG(INFO) << refused.node.ToString() << " is reached at " << refused.endpoint
              << ", not through shared memory: it did not take the link";
    if (!ConnectSocket(refused.node, refused.endpoint).ok()) continue;
    for (const wire::Message& message : refused.untaken) {
      if (!SendStamped(refused.node, message).ok()) counts_.Dropped();
    }
  }
}

absl::Status NodeTransport::CheckHeader() const {
  if (header_.size() <= options_.frame_limits.header_bytes_max) return absl::OkStatus();
  return absl::InvalidArgumentError("the message's header is too large");
}

absl::Status NodeTransport::SendLocally(LinkId link, const wire::Message& message) {
  wire::EncodeLocalHeader(message, identity_.self(), &header_);
  SOAP_RETURN_IF_ERROR(CheckHeader());
  SOAP_RETURN_IF_ERROR(local_links_.Send(link, header_, message.payload));
  counts_.Sent(Way::kLink, message, header_);
  return absl::OkStatus();
}

absl::Status NodeTransport::SendStamped(wire::Address node, const wire::Message& message) {
  if (local_.opening()) {
    local_links_.Progress();
    FollowOpening();
  }
  if (const LinkId link = local_.LinkTo(node); link != 0) {
    const bool opening = local_.opening();
    if (opening && local_.IsFull(node)) {
      return absl::ResourceExhaustedError("the link has not been taken yet");
    }
    absl::Status sent = SendLocally(link, message);
    if (opening && sent.ok()) local_.Sent(node, message);
    return sent;
  }
  const ZmqSockets::Connection* connection = zmq_.sockets()->Find(node);
  const Route* route = connection == nullptr ? routes_.Find(node) : nullptr;
  if (route != nullptr && route->link != 0) return SendLocally(route->link, message);
  if (connection == nullptr && route == nullptr) {
    return absl::NotFoundError(absl::StrCat("no route to ", node.ToString()));
  }
  const std::string& peer = connection != nullptr ? connection->routing_id : route->routing_id;
  if (streams_.Carries(peer)) return SendByStream(peer, message);
  SOAP_RETURN_IF_ERROR(SendByZmq(connection, route, message));
  if (options_.streams && connection != nullptr && IsForStreams(message.type) &&
      IsTcp(connection->endpoint) && identity_.session() != 0) {
    streams_.Ask(peer, identity_.session(), connection->endpoint);
  }
  return absl::OkStatus();
}

absl::Status NodeTransport::SendByStream(const std::string& peer, const wire::Message& message) {
  wire::EncodeLocalHeader(message, identity_.self(), &header_);
  SOAP_RETURN_IF_ERROR(CheckHeader());
  SOAP_RETURN_IF_ERROR(streams_.Send(peer, header_, message.payload, message.priority));
  counts_.Sent(Way::kStream, message, header_);
  return absl::OkStatus();
}

absl::Status NodeTransport::SendByZmq(const ZmqSockets::Connection* connection, const Route* route,
                                      const wire::Message& message) {
  header_ = wire::EncodeHeader(message, identity_.self());
  SOAP_RETURN_IF_ERROR(CheckHeader());
  const absl::Status sent =
      zmq_.Send(connection != nullptr ? connection->routing_id : route->routing_id,
                connection != nullptr, header_, message.payload);
  if (!sent.ok()) {
    return absl::Status(sent.code(), absl::StrCat(message.to.ToString(), ": ", sent.message()));
  }
  counts_.Sent(Way::kZmq, message, header_);
  return absl::OkStatus();
}

absl::Status NodeTransport::TellNote(const std::string& peer, bool ours, const Handshake& note) {
  const std::string frame = EncodeNote(note);
  SOAP_RETURN_IF_ERROR(zmq_.Send(peer, ours, frame, {}));
  counts_.SentNote(frame.size());
  return absl::OkStatus();
}

std::optional<wire::Message> NodeTransport::Receive(SteadyTime deadline) {
  if (early_.has_value()) return std::exchange(early_, std::nullopt);
  wire::Message message;
  if (++since_tend_ >= kTendEveryMessages) Tend();
  while (!closed_) {
    switch (TakeOne(&message)) {
      case Taken::kMessage:
        return message;
      case Taken::kRejected:
        // A flood of garbage must not hold the caller beyond its deadline.
        if (wait_.TakeWake() || SteadyNow() >= deadline) return std::nullopt;
        break;
      case Taken::kNothing:
        if (wait_.TakeWake() || !Poll(deadline)) return std::nullopt;
        break;
    }
  }
  return std::nullopt;
}

NodeTransport::Taken NodeTransport::Judge(absl::StatusOr<wire::Message> accepted,
                                          wire::Message* message) {
  frames_.clear();
  if (!accepted.ok()) {
    rejections_.Add(accepted.status(), SteadyNow());
    return Taken::kRejected;
  }
  *message = *std::move(accepted);
  return Taken::kMessage;
}

// Links before sockets, and now and then the other way round, so that neither starves.
NodeTransport::Taken NodeTransport::TakeLocal(wire::Message* message) {
  if (++since_progress_ >= kProgressEvery) {
    since_progress_ = 0;
    local_links_.Progress();
  }
  if (local_.opening()) FollowOpening();
  if (++local_in_a_row_ > kLocalInARow) {
    local_in_a_row_ = 0;
    return Taken::kNothing;
  }
  Route route;
  if (!local_links_.Receive(&route.link, &frames_)) {
    local_in_a_row_ = 0;
    return Taken::kNothing;
  }
  wire::Role role = wire::Role::kNone;
  if (options_.keys != nullptr) {
    if (const auto proved = local_links_.RoleOf(route.link)) role = RoleOf(*proved);
  }
  return Judge(Accept(frames_, &route, Way::kLink, role), message);
}

NodeTransport::Taken NodeTransport::TakeStream(wire::Message* message) {
  bool ours = false;
  if (!streams_.Receive(&stream_peer_, &ours, &frames_)) return Taken::kNothing;
  const Route route = {.routing_id = stream_peer_};
  const wire::Role role = streams_.RoleOf(stream_peer_);
  return Judge(Accept(frames_, ours ? nullptr : &route, Way::kStream, role), message);
}

NodeTransport::Taken NodeTransport::TakeSocket(wire::Message* message) {
  ZmqSockets::Source from;
  const ZmqLinks::Came came = zmq_.Receive(&frames_, &from);
  if (came == ZmqLinks::Came::kNothing) return Taken::kNothing;
  if (came == ZmqLinks::Came::kOther) return Taken::kRejected;
  if (frames_.size() == 1 && IsNote(frames_[0])) {
    TakeNote(from, frames_[0]);
    frames_.clear();
    return Taken::kRejected;
  }
  const Route route = {.routing_id = from.routing_id};
  absl::StatusOr<wire::Message> accepted =
      Accept(frames_, from.answered ? &route : nullptr, Way::kZmq, from.role);
  if (accepted.ok()) {
    // A stranger's Hello is no proof.
    const bool ours = identity_.session() != 0 && accepted->session == identity_.session();
    if (ours || !from.answered) zmq_.Watch(from);
    if (ours) zmq_.Prove(from.routing_id);
  }
  return Judge(std::move(accepted), message);
}

// What takes its time: connections made again, messages sent again, links given up.
void NodeTransport::Tend() {
  since_tend_ = 0;
  zmq_.Tend(SteadyNow());
  for (const LostLink& lost : zmq_.TakeLost()) Lose(lost);
  streams_.Tend();
  for (const LostLink& lost : streams_.TakeLost()) Lose(lost);
  if (local_links_.mending()) local_links_.Progress();
  for (const LostLocalLink& lost : local_links_.TakeLost()) LoseLocal(lost);
}

void NodeTransport::LoseLocal(const LostLocalLink& lost) {
  if (const std::optional<wire::Address> node = local_.NodeOf(lost.link)) {
    return lost_.push_back({*node, lost.why});
  }
  const auto known = routes_.NodeWhere([&](const Route& r) { return r.link == lost.link; });
  if (known.has_value()) lost_.push_back({known->first, lost.why, known->second});
}

void NodeTransport::Lose(const LostLink& lost) {
  streams_.Drop(lost.peer);
  if (const std::optional<wire::Address> node = zmq_.sockets()->PeerOf(lost.peer)) {
    return lost_.push_back({*node, lost.why});
  }
  const auto known = routes_.NodeWhere([&](const Route& r) { return r.routing_id == lost.peer; });
  if (known.has_value()) lost_.push_back({known->first, lost.why, known->second});
}

void NodeTransport::TakeNote(const ZmqSockets::Source& from, const Buffer& frame) {
  const std::optional<Handshake> note = DecodeNote(frame);
  if (note.has_value() && identity_.session() == 0) return;  // from one that was welcomed before us
  if (!note.has_value() || note->session == 0 || note->session != identity_.session()) {
    const auto why = absl::InvalidArgumentError("a note of another session or release");
    return rejections_.Add(why, SteadyNow());
  }
  zmq_.Watch(from);
  zmq_.Prove(from.routing_id);
  counts_.ReceivedNote(frame.size());
  if (!options_.streams || note->word == Handshake::Word::kHere) return;
  // Notes of the two roles do not go the same way.
  const bool asks = note->word == Handshake::Word::kAsk;
  const bool answers =
      note->word == Handshake::Word::kOffer || note->word == Handshake::Word::kRefuse;
  if (from.answered ? !answers : !asks) {
    streams_.OnNote(from.routing_id, *note, from.fd, from.role);
  }
}

// Links before streams before sockets, and now and then the other way round, so that none starves.
NodeTransport::Taken NodeTransport::TakeOne(wire::Message* message) {
  if (const Taken taken = TakeLocal(message); taken != Taken::kNothing) return taken;
  if (!streams_.any_open() && !streams_.unfinished()) return TakeSocket(message);
  const bool sockets_first = ++since_look_ >= kLookEvery;
  if (sockets_first) {
    since_look_ = 0;
    streams_.Look();
    if (const Taken taken = TakeSocket(message); taken != Taken::kNothing) return taken;
  }
  // Nothing may be left of what was read when Poll goes to sleep.
  if (const Taken taken = TakeStream(message); taken != Taken::kNothing) return taken;
  return sockets_first ? Taken::kNothing : TakeSocket(message);
}

// `route`: how the sender is answered; null: it was connected to.
absl::StatusOr<wire::Message> NodeTransport::Accept(absl::Span<const Buffer> frames,
                                                    const Route* route, Way way, wire::Role role) {
  SOAP_ASSIGN_OR_RETURN(wire::Received received,
                        way == Way::kZmq ? wire::Decode(frames, options_.frame_limits)
                                         : wire::DecodeLocal(frames, options_.frame_limits));
  const LinkId link = local_.LinkTo(received.sender);
  const bool linked = link != 0;
  // What peers say on a link they made is told from what is answered on ours by the link.
  const bool ours = route == nullptr || (way == Way::kLink && linked && link == route->link);
  const bool connected = !ours && (linked || zmq_.sockets()->Find(received.sender) != nullptr);
  SOAP_RETURN_IF_ERROR(identity_.Admit(
      received, {.by_our_connection = ours, .connected_to_sender = connected, .role = role}));
  const bool learns = route != nullptr && !linked;
  if (learns && !routes_.Learn(received.sender, *route, received.message.epoch)) {
    return absl::ResourceExhaustedError(
        "no room for another route, or of a former holder of the rank");
  }
  counts_.Received(way, received.message, frames);
  return std::move(received.message);
}

// Waits until something may have arrived. False when the deadline has passed.
bool NodeTransport::Poll(SteadyTime deadline) {
  streams_.Flush();
  Tend();
  absl::Duration left = deadline - SteadyNow();
  if (left <= absl::ZeroDuration()) {
    streams_.Look();
    return false;
  }
  if (streams_.readable()) return true;
  left = std::min(left, zmq_.longest_sleep());
  if (streams_.unfinished() || local_links_.mending()) left = std::min(left, kUnfinishedWait);
  const bool of_links = wait_.Wait(deadline, left);
  if (of_links && !local_.opening()) local_links_.Progress();
  Tend();
  if (local_.opening()) local_links_.Progress();
  return true;
}

// With keys a link is handed over after some words; what was sent by it goes then.
void NodeTransport::FinishOpening(SteadyTime deadline) {
  while (options_.keys != nullptr && local_.opening() && SteadyNow() < deadline) {
    local_links_.Progress();
    FollowOpening();
    if (local_.opening()) absl::SleepFor(kOpeningLook);
  }
}

void NodeTransport::Close(absl::Duration linger) {
  if (closed_) return;
  const SteadyTime deadline = SteadyNow() + linger;
  FinishOpening(deadline);
  closed_ = true;
  local_links_.Close();
  streams_.Close(deadline);
  zmq_.Close(deadline, counts_.sockets());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> MakeZmqTransport(const ZmqOptions& options) {
  auto transport = std::make_unique<NodeTransport>(options);
  SOAP_RETURN_IF_ERROR(transport->Open());
  return transport;
}

}  // namespace soapstone::transport
