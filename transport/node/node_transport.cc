#include "transport/node/node_transport.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/steady_clock.h"
#include "glog/logging.h"
#include "transport/identity.h"
#include "transport/node/endpoint.h"
#include "transport/node/numbered_links.h"
#include "transport/rejections.h"
#include "transport/shm/shm_links.h"
#include "transport/tcp/tcp_links.h"
#include "transport/zmq/zmq_sockets.h"
#include "wire/compact_header.h"

namespace soapstone::transport {
namespace {

// Before it sleeps, with links or streams open: waking a sleeper costs both sides some 10 us. Where
// waits have been short of late, kUsualMax or less, it looks for kSpinMax. Where only streams are
// looked at others have the processor after kSpin; for a link it is not given up: the other side is
// known to run elsewhere, and whoever else wants this one might keep it for milliseconds.
constexpr absl::Duration kSpin = absl::Microseconds(20);
constexpr absl::Duration kSpinMax = absl::Microseconds(100);
constexpr absl::Duration kUsualMax = absl::Microseconds(200);  // with what waking takes
constexpr int kLocalInARow = 16;  // messages of links to a look at sockets
constexpr int kLookEvery = 64;    // messages to a look at all streams, and at sockets
constexpr absl::Duration kUnfinishedWait = absl::Milliseconds(20);  // while links are made
constexpr absl::Duration kWaitingWait =
    absl::Milliseconds(10);  // while messages are to be answered for
constexpr absl::Duration kTendWait = absl::Milliseconds(200);  // NumberedLinks::Tend while idle
constexpr int kNotesInARow = 64;        // of sessions, to a look at deadlines
constexpr int kTendEveryMessages = 64;  // messages
constexpr absl::Duration kBrokenEvery = absl::Milliseconds(50);  // before libzmq connects again
constexpr int kProgressEvery = 256;  // messages to a look at links' sockets

// A descriptor that is closed.
struct WakeFd {
  ~WakeFd() {
    if (fd >= 0) close(fd);
  }
  int fd = -1;
};

// Where a node that we did not connect to was heard.
struct Route {
  std::string routing_id;  // of the ROUTER's peer
  LinkId link = 0;         // or this, where it is not 0
  friend bool operator==(const Route&, const Route&) = default;
};

// A connection through shared memory. What is sent before the other side has taken the link is
// kept: if it never takes it, the endpoint is connected to instead, and gets that.
struct LocalConnection {
  LinkId link = 0;
  std::string endpoint;
  bool opened = false;
  std::vector<wire::Message> untaken;
};

NumberedOptions NumberedOptionsOf(const ZmqOptions& options) {
  return {.limits = {.bytes_max = options.queue_bytes_max,
                     .items_max = static_cast<uint64_t>(options.queue_messages_max)},
          .link_timeout = options.link_timeout,
          .links_max = options.route_limits.routes_max};
}

StreamOptions StreamOptionsOf(const ZmqOptions& options) {
  return {.port = options.stream_port,
          .link_timeout = options.link_timeout,
          .limits = {.queue_messages_max = options.queue_messages_max,
                     .queue_bytes_max = options.queue_bytes_max,
                     .unsent_bytes_max = options.stream_unsent_bytes_max,
                     .adapts = options.stream_window,
                     .frame = options.frame_limits}};
}

bool IsTcp(std::string_view endpoint) { return endpoint.substr(0, 6) == "tcp://"; }

// What there can be much of; the rest is as well off with ZeroMQ.
bool IsForStreams(wire::MessageType type) { return type >= wire::MessageType::kPush; }

class NodeTransport final : public Transport {
 public:
  explicit NodeTransport(const ZmqOptions& options)
      : options_(options),
        sockets_(
            {.queue_messages_max = options.queue_messages_max,
             .frame_bytes_max = static_cast<int64_t>(std::max<uint64_t>(
                 options.frame_limits.frame_bytes_max, options.frame_limits.header_bytes_max))},
            options.door),
        identity_(options.frame_limits),
        routes_(options.route_limits),
        local_links_(
            {.link_timeout = options.link_timeout, .unread_bytes_max = options.queue_bytes_max}),
        numbered_(
            NumberedOptionsOf(options),
            [this](const std::string& peer, bool ours, std::string_view first,
                   absl::Span<const Buffer> rest,
                   bool again) { return PutFrames(peer, ours, first, rest, again); },
            [this](const std::string& peer) {
              const absl::Status dialled = sockets_.Redial(peer);
              LOG_IF(WARNING, !dialled.ok()) << "no other connection: " << dialled;
            }),
        streams_(StreamOptionsOf(options),
                 [this](const std::string& peer, bool ours, const Handshake& note) {
                   return TellNote(peer, ours, note);
                 }) {}
  ~NodeTransport() override { Close(absl::ZeroDuration()); }

  absl::Status Open();

  absl::Status Connect(wire::Address peer, const std::string& endpoint) override;
  void SetSelf(wire::Address self) override { identity_.SetSelf(self); }
  void SetSession(uint64_t session) override { identity_.SetSession(session); }
  absl::Status Send(wire::Address node, const wire::Message& message) override;
  std::optional<wire::Message> Receive(SteadyTime deadline) override;
  std::vector<LostNode> TakeLost() override { return std::exchange(lost_, {}); }
  void Wake() override;
  void Close(absl::Duration linger) override;
  std::string endpoint() const override { return endpoint_; }
  TransportStats stats() const override {
    TransportStats stats = stats_;
    stats.rejected_messages = rejections_.count();
    stats.strangers = sockets_.strangers();
    stats.sent.framing += streams_.framing_sent();
    stats.received.framing += streams_.framing_received();
    stats.dropped_messages += streams_.dropped_messages();
    stats.sockets.Add(streams_.sockets());
    return stats;
  }

 private:
  enum class Taken { kNothing, kRejected, kMessage };

  absl::Status SendStamped(wire::Address node, const wire::Message& message);
  absl::Status SendLocally(LinkId link, const wire::Message& message);
  absl::Status ConnectSocket(wire::Address peer, const std::string& endpoint);
  void ForgetConnection(wire::Address peer);
  void ListenLocally();
  void FollowOpening();
  Taken TakeOne(wire::Message* message);
  Taken TakeLocal(wire::Message* message);
  Taken TakeStream(wire::Message* message);
  Taken TakeSocket(wire::Message* message);
  Taken Judge(absl::StatusOr<wire::Message> accepted, wire::Message* message);
  enum class By : uint8_t { kZmq, kLink, kStream };
  absl::StatusOr<wire::Message> Accept(absl::Span<const Buffer> frames, const Route* route, By by);
  absl::Status SendByStream(const std::string& peer, const wire::Message& message);
  absl::Status SendByZmq(ZmqSockets::Connection* connection, const Route* route,
                         const wire::Message& message);
  absl::Status PutFrames(const std::string& peer, bool ours, std::string_view first,
                         absl::Span<const Buffer> rest, bool again);
  Taken TakeFrames(ZmqSockets::Source* from);
  bool TakeEarly();
  void Tend();
  void Lose(const LostLink& lost);
  void LoseLocal(const LostLocalLink& lost);
  absl::Status TellNote(const std::string& peer, bool ours, const Handshake& note);
  void TakeNote(const ZmqSockets::Source& from, const Buffer& frame);
  bool TakeWake();
  bool Poll(SteadyTime deadline);
  bool Spin(SteadyTime began, SteadyTime until, bool yields);
  void NoteWait(absl::Duration waited);
  void Dispatch(absl::Span<const zmq_pollitem_t> items, size_t local_count);

  const ZmqOptions options_;
  WakeFd wake_fd_;
  ZmqSockets sockets_;
  std::string endpoint_;
  bool closed_ = false;

  Identity identity_;
  RouteTable<Route> routes_;
  ShmLinks local_links_;
  std::map<wire::Address, LocalConnection> local_;
  bool opening_ = false;  // some of them
  NumberedLinks numbered_;
  TcpLinks streams_;
  std::vector<LostNode> lost_;
  std::optional<wire::Message> early_;  // came while a Send waited for room
  int since_tend_ = 0;
  SteadyTime look_for_broken_at_ = SteadyTime::InfinitePast();
  int local_in_a_row_ = 0;
  int since_look_ = 0;
  int since_progress_ = 0;
  std::atomic<bool> wake_ = false;
  std::atomic<bool> sleeps_ = false;   // in Poll, or about to
  std::string header_;                 // scratch of SendLocally and SendByStream
  std::string stream_peer_;            // scratch of TakeStream
  Buffers frames_;                     // scratch of TakeOne
  std::vector<pollfd> fds_;            // scratch of Poll
  std::vector<zmq_pollitem_t> items_;  // likewise
  absl::Duration usual_wait_ = kSpinMax;
  TransportStats stats_;
  Rejections rejections_;
};

absl::Status NodeTransport::Open() {
  wake_fd_.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd_.fd < 0) return absl::ResourceExhaustedError("too many open files");
  SOAP_RETURN_IF_ERROR(sockets_.Open());
  if (options_.listen.empty()) return absl::OkStatus();
  SOAP_ASSIGN_OR_RETURN(const std::string address, BindAddress(options_.listen));
  SOAP_RETURN_IF_ERROR(sockets_.Listen(address));
  endpoint_ = ConnectAddress(options_.listen, sockets_.bound_to(), options_.advertise_host);
  if (options_.shared_memory) ListenLocally();
  if (options_.streams && IsTcp(endpoint_)) streams_.OfferAt(sockets_.bound_to());
  return absl::OkStatus();
}

void NodeTransport::ListenLocally() {
  absl::Status listening = absl::UnavailableError("the system gives no sealed memory (memfd)");
  if (SharedArena::Enable()) listening = local_links_.Listen(endpoint_);
  LOG_IF(INFO, !listening.ok()) << "no shared memory with other processes of this machine, which "
                                << "are reached at " << endpoint_
                                << " as well: " << listening.message();
}

absl::Status NodeTransport::Connect(wire::Address peer, const std::string& endpoint) {
  if (closed_) return absl::FailedPreconditionError("the transport is closed");
  SOAP_RETURN_IF_ERROR(CheckEndpoint(endpoint));
  if (options_.shared_memory && SharedArena::Enable()) {
    if (const auto before = local_.find(peer); before != local_.end()) {
      local_links_.Drop(before->second.link);
      local_.erase(before);
    }
    if (const std::optional<LinkId> link = local_links_.Connect(endpoint)) {
      local_[peer] = {.link = *link, .endpoint = endpoint};
      opening_ = true;
      ForgetConnection(peer);
      return absl::OkStatus();
    }
  }
  return ConnectSocket(peer, endpoint);
}

void NodeTransport::ForgetConnection(wire::Address peer) {
  const ZmqSockets::Connection* before = sockets_.Find(peer);
  if (before == nullptr) return;
  streams_.Drop(before->routing_id);
  numbered_.Drop(before->routing_id);
  sockets_.Disconnect(peer);
}

absl::Status NodeTransport::ConnectSocket(wire::Address peer, const std::string& endpoint) {
  if (const ZmqSockets::Connection* before = sockets_.Find(peer)) {
    streams_.Drop(before->routing_id);
    numbered_.Drop(before->routing_id);
  }
  SOAP_RETURN_IF_ERROR(sockets_.Connect(peer, endpoint));
  if (identity_.session() == 0) return absl::OkStatus();
  // Until something of the session has come the other side takes little (transport/zmq/door.h).
  const Handshake here = {.word = Handshake::Word::kHere, .session = identity_.session()};
  const std::string& routing_id = sockets_.Find(peer)->routing_id;
  SOAP_RETURN_IF_ERROR(TellNote(routing_id, true, here));
  numbered_.Expect(routing_id, SteadyNow());  // a roster names who was there
  return absl::OkStatus();
}

absl::Status NodeTransport::Send(wire::Address node, const wire::Message& message) {
  if (closed_) return absl::FailedPreconditionError("the transport is closed");
  SOAP_ASSIGN_OR_RETURN(const wire::Message stamped, identity_.Stamp(node, message));
  absl::Status sent = SendStamped(node, stamped);
  if (absl::IsResourceExhausted(sent) && TakeEarly()) sent = SendStamped(node, stamped);
  if (!sent.ok()) ++stats_.dropped_messages;
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
  opening_ = false;
  for (auto it = local_.begin(); it != local_.end();) {
    LocalConnection& local = it->second;
    const ShmLinks::State state = local_links_.state(local.link);
    if (state == ShmLinks::State::kOpen) {
      local.opened = true;
      local.untaken.clear();
    }
    if (state != ShmLinks::State::kGone || local.opened) {
      opening_ = opening_ || state == ShmLinks::State::kOpening;
      ++it;
      continue;
    }
    const wire::Address peer = it->first;
    const LocalConnection refused = std::move(local);
    it = local_.erase(it);
    LOG(INFO) << peer.ToString() << " is reached at " << refused.endpoint
              << ", not through shared memory: it did not take the link";
    if (!ConnectSocket(peer, refused.endpoint).ok()) continue;
    for (const wire::Message& message : refused.untaken) {
      if (!SendStamped(peer, message).ok()) ++stats_.dropped_messages;
    }
  }
}

absl::Status NodeTransport::SendLocally(LinkId link, const wire::Message& message) {
  wire::EncodeLocalHeader(message, identity_.self(), &header_);
  if (header_.size() > options_.frame_limits.header_bytes_max) {
    return absl::InvalidArgumentError("the message's header is too large");
  }
  SOAP_RETURN_IF_ERROR(local_links_.Send(link, header_, message.payload));
  ++stats_.sent_messages;
  stats_.sent.AddMessage(message.type, header_.size(), message.payload_bytes());
  stats_.shared_bytes += header_.size() + message.payload_bytes();
  return absl::OkStatus();
}

absl::Status NodeTransport::SendStamped(wire::Address node, const wire::Message& message) {
  if (opening_) {
    local_links_.Progress();
    FollowOpening();
  }
  if (const auto local = local_.find(node); local != local_.end()) {
    LocalConnection& connection = local->second;
    if (!connection.opened &&
        connection.untaken.size() >= static_cast<size_t>(options_.queue_messages_max)) {
      return absl::ResourceExhaustedError("the link has not been taken yet");
    }
    absl::Status sent = SendLocally(connection.link, message);
    if (sent.ok() && !connection.opened) connection.untaken.push_back(message);
    return sent;
  }
  ZmqSockets::Connection* connection = sockets_.Find(node);
  const Route* route = connection == nullptr ? routes_.Find(node) : nullptr;
  if (route != nullptr && route->link != 0) {
    return SendLocally(route->link, message);
  }
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
  if (header_.size() > options_.frame_limits.header_bytes_max) {
    return absl::InvalidArgumentError("the message's header is too large");
  }
  SOAP_RETURN_IF_ERROR(streams_.Send(peer, header_, message.payload, message.priority));
  ++stats_.sent_messages;
  ++stats_.streamed_messages;
  stats_.sent.AddMessage(message.type, header_.size(), message.payload_bytes());
  stats_.sent.framing += StreamChannel::FramingOf(header_.size(), message.payload);
  return absl::OkStatus();
}

absl::Status NodeTransport::SendByZmq(ZmqSockets::Connection* connection, const Route* route,
                                      const wire::Message& message) {
  const std::string header = wire::EncodeHeader(message, identity_.self());
  if (header.size() > options_.frame_limits.header_bytes_max) {
    return absl::InvalidArgumentError("the message's header is too large");
  }
  const absl::Status sent =
      numbered_.Send(connection != nullptr ? connection->routing_id : route->routing_id,
                     connection != nullptr, header, message.payload, SteadyNow());
  if (!sent.ok()) {
    return absl::Status(sent.code(), absl::StrCat(message.to.ToString(), ": ", sent.message()));
  }
  ++stats_.sent_messages;
  stats_.sent.AddMessage(message.type, header.size(), message.payload_bytes());
  return absl::OkStatus();
}

// Frames of a message, of a note on streams, or of the sessions themselves. What goes twice, and
// what sessions say, is framing.
absl::Status NodeTransport::PutFrames(const std::string& peer, bool ours, std::string_view first,
                                      absl::Span<const Buffer> rest, bool again) {
  ZmqSockets::Connection* connection = ours ? sockets_.FindByRoutingId(peer) : nullptr;
  if (ours && connection == nullptr) return absl::NotFoundError("no such connection");
  SOAP_RETURN_IF_ERROR(ours ? sockets_.SendTo(connection, first, rest)
                            : sockets_.Answer(peer, first, rest));
  uint64_t bytes = ZmtpFramingOf(first.size(), rest);
  bytes += again ? first.size() : NumberedLinks::kTrailerBytes;
  for (size_t i = 0; again && i < rest.size(); ++i) bytes += rest[i].size();
  stats_.sent.framing += bytes;
  return absl::OkStatus();
}

absl::Status NodeTransport::TellNote(const std::string& peer, bool ours, const Handshake& note) {
  const std::string frame = EncodeNote(note);
  SOAP_RETURN_IF_ERROR(numbered_.Send(peer, ours, frame, {}, SteadyNow()));
  stats_.sent.control += frame.size();
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
        if (TakeWake() || SteadyNow() >= deadline) return std::nullopt;
        break;
      case Taken::kNothing:
        if (TakeWake() || !Poll(deadline)) return std::nullopt;
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
  if (opening_) FollowOpening();
  if (++local_in_a_row_ > kLocalInARow) {
    local_in_a_row_ = 0;
    return Taken::kNothing;
  }
  Route route;
  if (!local_links_.Receive(&route.link, &frames_)) {
    local_in_a_row_ = 0;
    return Taken::kNothing;
  }
  return Judge(Accept(frames_, &route, By::kLink), message);
}

NodeTransport::Taken NodeTransport::TakeStream(wire::Message* message) {
  bool ours = false;
  if (!streams_.Receive(&stream_peer_, &ours, &frames_)) return Taken::kNothing;
  const Route route = {.routing_id = stream_peer_};
  return Judge(Accept(frames_, ours ? nullptr : &route, By::kStream), message);
}

// The next frames of ZeroMQ that its session lets pass.
NodeTransport::Taken NodeTransport::TakeFrames(ZmqSockets::Source* from) {
  // One frame beyond the limit is kept (and one for the header), so that Decode sees that there are
  // too many.
  const size_t frames_max = options_.frame_limits.payload_frames_max + 2;
  for (int notes = 0; sockets_.Receive(frames_max, &frames_, from);) {
    if (from->answered && frames_.size() == 1 && frames_[0].size() == 0) {
      // Nobody else knows the routing id: a connection that was made again is the peer's.
      if (numbered_.IsProven(from->routing_id)) sockets_.Knocked(*from);
      return Taken::kRejected;
    }
    switch (numbered_.Receive(from->routing_id, !from->answered, &frames_, SteadyNow())) {
      case NumberedLinks::Came::kMessage:
        return Taken::kMessage;
      case NumberedLinks::Came::kForeign:
        rejections_.Add(absl::InvalidArgumentError("no message of a session"), SteadyNow());
        return Taken::kRejected;
      case NumberedLinks::Came::kOther:
        // Nobody else knows the routing id: a connection that was made again is the peer's.
        if (numbered_.IsProven(from->routing_id)) stats_.sent.framing += sockets_.Watch(*from);
        if (++notes >= kNotesInARow) return Taken::kRejected;
        break;
    }
  }
  return Taken::kNothing;
}

NodeTransport::Taken NodeTransport::TakeSocket(wire::Message* message) {
  ZmqSockets::Source from;
  if (const Taken taken = TakeFrames(&from); taken != Taken::kMessage) return taken;
  if (frames_.size() == 1 && IsNote(frames_[0])) {
    TakeNote(from, frames_[0]);
    frames_.clear();
    return Taken::kRejected;
  }
  const Route route = {.routing_id = from.routing_id};
  absl::StatusOr<wire::Message> accepted =
      Accept(frames_, from.answered ? &route : nullptr, By::kZmq);
  if (accepted.ok()) {
    // A stranger's Hello is no proof.
    const bool ours = identity_.session() != 0 && accepted->session == identity_.session();
    if (ours || !from.answered) stats_.sent.framing += sockets_.Watch(from);
    if (ours) numbered_.Prove(from.routing_id);
  }
  return Judge(std::move(accepted), message);
}

// What takes its time: connections made again, messages sent again, links given up.
void NodeTransport::Tend() {
  since_tend_ = 0;
  const SteadyTime now = SteadyNow();
  if (now >= look_for_broken_at_) {
    look_for_broken_at_ = now + kBrokenEvery;
    for (const std::string& peer : sockets_.Broken()) numbered_.Broke(peer, now);
  }
  numbered_.Tend(now);
  for (const LostLink& lost : numbered_.TakeLost()) Lose(lost);
  streams_.Tend();
  for (const LostLink& lost : streams_.TakeLost()) Lose(lost);
  if (local_links_.mending()) local_links_.Progress();
  for (const LostLocalLink& lost : local_links_.TakeLost()) LoseLocal(lost);
}

void NodeTransport::LoseLocal(const LostLocalLink& lost) {
  for (const auto& [node, connection] : local_) {
    if (connection.link == lost.link) return lost_.push_back({node, lost.why});
  }
  const auto known = routes_.NodeWhere([&](const Route& r) { return r.link == lost.link; });
  if (known.has_value()) lost_.push_back({known->first, lost.why, known->second});
}

void NodeTransport::Lose(const LostLink& lost) {
  streams_.Drop(lost.peer);
  if (const std::optional<wire::Address> node = sockets_.PeerOf(lost.peer)) {
    return lost_.push_back({*node, lost.why});
  }
  const auto known = routes_.NodeWhere([&](const Route& r) { return r.routing_id == lost.peer; });
  if (known.has_value()) lost_.push_back({known->first, lost.why, known->second});
}

void NodeTransport::TakeNote(const ZmqSockets::Source& from, const Buffer& frame) {
  const std::optional<Handshake> note = DecodeNote(frame);
  if (note.has_value() && identity_.session() == 0) return;  // from one that was welcomed before us
  if (!note.has_value() || note->session == 0 || note->session != identity_.session()) {
    rejections_.Add(absl::InvalidArgumentError("a note of another session or release"),
                    SteadyNow());
    return;
  }
  stats_.sent.framing += sockets_.Watch(from);
  numbered_.Prove(from.routing_id);
  stats_.received.control += frame.size();
  stats_.received.framing +=
      ZmtpFramingOf(frame.size() + NumberedLinks::kTrailerBytes, {}) + NumberedLinks::kTrailerBytes;
  if (!options_.streams || note->word == Handshake::Word::kHere) return;
  // Notes of the two roles do not go the same way.
  const bool asks = note->word == Handshake::Word::kAsk;
  const bool answers =
      note->word == Handshake::Word::kOffer || note->word == Handshake::Word::kRefuse;
  if (from.answered ? !answers : !asks) streams_.OnNote(from.routing_id, *note, from.fd);
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
                                                    const Route* route, By by) {
  SOAP_ASSIGN_OR_RETURN(wire::Received received,
                        by == By::kZmq ? wire::Decode(frames, options_.frame_limits)
                                       : wire::DecodeLocal(frames, options_.frame_limits));
  const auto link = local_.find(received.sender);
  const bool linked = link != local_.end();
  // What peers say on a link they made is told from what is answered on ours by the link.
  const bool ours =
      route == nullptr || (by == By::kLink && linked && link->second.link == route->link);
  const bool connected = !ours && (linked || sockets_.Find(received.sender) != nullptr);
  SOAP_RETURN_IF_ERROR(
      identity_.Admit(received, {.by_our_connection = ours, .connected_to_sender = connected}));
  const bool learns = route != nullptr && !linked;
  if (learns && !routes_.Learn(received.sender, *route, received.message.epoch)) {
    return absl::ResourceExhaustedError(
        "no room for another route, or of a former holder of the rank");
  }
  ++stats_.received_messages;
  stats_.received.AddMessage(received.message.type, frames[0].size(),
                             received.message.payload_bytes());
  if (by == By::kZmq) {
    constexpr size_t kTrailer = NumberedLinks::kTrailerBytes;
    stats_.received.framing +=
        ZmtpFramingOf(frames[0].size() + kTrailer, frames.subspan(1)) + kTrailer;
  } else if (by == By::kStream) {
    stats_.received.framing += StreamChannel::FramingOf(frames[0].size(), frames.subspan(1));
  }
  return std::move(received.message);
}

void NodeTransport::Wake() {
  wake_ = true;
  if (!sleeps_) return;
  const uint64_t one = 1;
  // Fails only when the counter is at its maximum: then the reader has been woken already.
  [[maybe_unused]] const ssize_t written = write(wake_fd_.fd, &one, sizeof(one));
}

bool NodeTransport::TakeWake() { return wake_ && wake_.exchange(false); }

// True: something came on a link or a stream, or a Wake.
bool NodeTransport::Spin(SteadyTime began, SteadyTime until, bool yields) {
  SteadyTime now = began;
  do {
    if (yields && now - began > kSpin) sched_yield();
    for (int i = 0; i < 32; ++i) {
      if (wake_ || local_links_.readable()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    if (streams_.Glance()) return true;
    now = SteadyNow();
  } while (now < until);
  return false;
}

// A moving average, in which no wait counts for more than a few of the short ones.
void NodeTransport::NoteWait(absl::Duration waited) {
  usual_wait_ += (std::min(waited, 4 * kSpinMax) - usual_wait_) / 8;
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
  // What comes within a moment is not worth a sleep.
  const SteadyTime began = SteadyNow();
  const bool links = local_links_.worth_a_look();
  const bool spins = links || streams_.any_open();
  const absl::Duration spin = usual_wait_ < kUsualMax ? kSpinMax : kSpin;
  if (spins && Spin(began, std::min(deadline, began + spin), !links)) {
    NoteWait(SteadyNow() - began);
    return true;
  }
  sleeps_ = true;
  if (wake_ || local_links_.PrepareToSleep()) {
    sleeps_ = false;
    return true;
  }
  fds_.clear();
  local_links_.AddPollItems(&fds_);
  const size_t local_count = fds_.size();
  streams_.AddPollItems(&fds_);
  items_.clear();
  items_.push_back({nullptr, wake_fd_.fd, ZMQ_POLLIN, 0});
  for (const pollfd& item : fds_) {
    const bool in = (item.events & POLLIN) != 0;
    const bool out = (item.events & POLLOUT) != 0;
    items_.push_back({nullptr, item.fd,
                      static_cast<int16_t>((in ? ZMQ_POLLIN : 0) | (out ? ZMQ_POLLOUT : 0)), 0});
  }
  sockets_.AddPollItems(&items_);
  if (streams_.unfinished() || local_links_.mending()) left = std::min(left, kUnfinishedWait);
  if (numbered_.waiting()) left = std::min(left, kWaitingWait);
  if (numbered_.size() > 0) left = std::min(left, kTendWait);
  const absl::Duration wait = std::min(absl::Ceil(left, absl::Milliseconds(1)), absl::Hours(1));
  const int rc = zmq_poll(items_.data(), static_cast<int>(items_.size()),
                          static_cast<long>(absl::ToInt64Milliseconds(wait)));  // NOLINT: zmq's
  PCHECK(rc >= 0 || errno == EINTR) << "zmq_poll";
  sleeps_ = false;
  if (rc > 0) NoteWait(SteadyNow() - began);
  local_links_.Woke();
  if (rc > 0) Dispatch(items_, local_count);
  Tend();
  if (opening_) local_links_.Progress();
  return true;
}

// What is ready, of what Poll waited for.
void NodeTransport::Dispatch(absl::Span<const zmq_pollitem_t> items, size_t local_count) {
  if (items[0].revents != 0) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(wake_fd_.fd, &count, sizeof(count));
  }
  bool of_links = false;
  for (size_t i = 0; i < fds_.size(); ++i) {
    const int16_t ready = items[1 + i].revents;
    if (i < local_count) of_links = of_links || ready != 0;
    fds_[i].revents = static_cast<int16_t>(((ready & ZMQ_POLLIN) != 0 ? POLLIN : 0) |
                                           ((ready & ZMQ_POLLOUT) != 0 ? POLLOUT : 0) |
                                           ((ready & ZMQ_POLLERR) != 0 ? POLLERR : 0));
  }
  if (of_links && !opening_) local_links_.Progress();
  streams_.Polled(absl::MakeConstSpan(fds_).subspan(local_count));
}

void NodeTransport::Close(absl::Duration linger) {
  if (closed_) return;
  closed_ = true;
  local_links_.Close();
  const SteadyTime deadline = SteadyNow() + linger;
  streams_.Close(deadline);
  // What ZeroMQ has taken over may be lost with a connection: until the others have it in hand.
  numbered_.AskAll(SteadyNow());
  for (ZmqSockets::Source from;;) {
    while (TakeFrames(&from) != Taken::kNothing && SteadyNow() < deadline) {
    }
    numbered_.Tend(SteadyNow());
    if (numbered_.all_acknowledged() || SteadyNow() >= deadline) break;
    items_.clear();
    sockets_.AddPollItems(&items_);
    zmq_poll(items_.data(), static_cast<int>(items_.size()), 1);
  }
  numbered_.SayBye();
  sockets_.Close(std::max(deadline - SteadyNow(), absl::ZeroDuration()), &stats_.sockets);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> MakeZmqTransport(const ZmqOptions& options) {
  auto transport = std::make_unique<NodeTransport>(options);
  SOAP_RETURN_IF_ERROR(transport->Open());
  return transport;
}

}  // namespace soapstone::transport
