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
#include "transport/node/endpoint.h"
#include "transport/node/known_nodes.h"
#include "transport/node/node_counts.h"
#include "transport/node/node_sender.h"
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
// What is tended has times of its own, of 10 ms and more: that the one is looked at with each wait
// would cost a round trip in shared memory a tenth of its time.
constexpr absl::Duration kTendAfter = absl::Milliseconds(1);
constexpr int kTendEveryMessages = 64;
constexpr int kProgressEvery = 256;  // messages to a look at links' sockets

class NodeTransport final : public Transport {
 public:
  explicit NodeTransport(const ZmqOptions& options)
      : options_(options),
        shm_links_(LocalOptionsOf(
            options, [this](const auto& key) { return !nodes_.holders().IsAwaited(key); })),
        local_(&shm_links_, static_cast<size_t>(options.queue_messages_max)),
        zmq_(SocketOptionsOf(options), options.door,
             NumberedOptionsOf(options, [this](const auto& peer) { return Waits(peer); }),
             // One frame beyond the limit is kept (and one for the header), so that Decode sees
             // that there are too many.
             options.frame_limits.payload_frames_max + 2, &rejections_),
        streams_(StreamOptionsOf(options),
                 [this](const std::string& peer, bool ours, const Handshake& note) {
                   return sender_.TellNote(peer, ours, note);
                 }),
        wait_(&shm_links_, &streams_, zmq_.sockets()),
        nodes_(options, &shm_links_, &local_, zmq_.sockets()),
        sender_(options, {&shm_links_, &local_, &zmq_, &streams_}, &nodes_, &counts_) {}
  ~NodeTransport() override { Close(absl::ZeroDuration()); }

  absl::Status Open();

  absl::Status Connect(wire::Address peer, const std::string& endpoint) override;
  void SetSelf(wire::Address self) override;
  void SetSession(uint64_t session) override;
  std::string process_key() const override { return nodes_.holders().own_key(); }
  void SetHolder(wire::Address node, const std::string& key) override;
  absl::Status Send(wire::Address node, const wire::Message& message) override;
  std::optional<wire::Message> Receive(SteadyTime deadline) override;
  std::vector<LostNode> TakeLost() override { return std::exchange(lost_, {}); }
  std::vector<wire::Address> TakeEnded() override;
  void Wake() override { wait_.Wake(); }
  void Close(absl::Duration linger) override;
  std::string endpoint() const override { return endpoint_; }
  TransportStats stats() const override {
    TransportStats stats = counts_.With(streams_.counts());
    stats.rejected_messages = rejections_.count();
    stats.strangers = zmq_.sockets().strangers();
    stats.handshakes = zmq_.sockets().handshakes();
    stats.proof_faults.links = shm_links_.unproven();
    stats.proof_faults.names = nodes_.impostors();
    stats.sent.framing += zmq_.framing_sent();
    return stats;
  }

 private:
  enum class Taken { kNothing, kRejected, kMessage };

  void FinishOpening(SteadyTime deadline);
  Taken TakeOne(wire::Message* message);
  Taken TakeLocal(wire::Message* message);
  Taken TakeStream(wire::Message* message);
  Taken TakeSocket(wire::Message* message);
  Taken Accept(const KnownNodes::Arrival& arrival, wire::Message* message);
  bool TakeEarly();
  void Tend(SteadyTime now);
  void TendIfDue(SteadyTime now);
  void Sleep(SteadyTime now, SteadyTime deadline);
  void Lose(const LostLink& lost);
  void LoseLocal(const LostLocalLink& lost);
  void TakeNote(const ZmqSockets::Source& from, const Buffer& frame);
  uint64_t session() const { return nodes_.identity().session(); }
  bool Waits(const std::string& peer) const;
  void LookForWaiting();
  bool Poll(SteadyTime deadline);

  const ZmqOptions options_;
  std::string endpoint_;
  SocketFile socket_file_;
  bool closed_ = false;

  ShmLinks shm_links_;
  ShmConnections local_;
  Rejections rejections_;
  ZmqLinks zmq_;
  TcpLinks streams_;
  NodeWait wait_;
  KnownNodes nodes_;
  NodeCounts counts_;
  NodeSender sender_;
  std::vector<LostNode> lost_;
  std::optional<wire::Message> early_;  // came while a Send waited for room
  bool guests_wait_ = false;            // until we know the session
  int since_tend_ = 0;                  // messages
  SteadyTime tended_at_ = SteadyTime::InfinitePast();
  int local_in_a_row_ = 0;
  int since_look_ = 0;
  int since_progress_ = 0;
  std::string stream_peer_;  // scratch of TakeStream
  Buffers frames_;           // scratch of TakeOne
};

absl::Status NodeTransport::Open() {
  SOAP_RETURN_IF_ERROR(wait_.Open());
  SOAP_RETURN_IF_ERROR(zmq_.sockets()->Open());
  if (options_.listen.empty()) return absl::OkStatus();
  SOAP_ASSIGN_OR_RETURN(const std::string address, BindAddress(options_.listen));
  SOAP_RETURN_IF_ERROR(zmq_.sockets()->Listen(address));
  socket_file_ = SocketFileOf(address);
  endpoint_ = ConnectAddress(options_.listen, zmq_.sockets()->bound_to(), options_.advertise_host);
  if (options_.shared_memory) local_.Listen(endpoint_);
  if (options_.streams && IsTcp(endpoint_)) streams_.OfferAt(zmq_.sockets()->bound_to());
  return absl::OkStatus();
}

absl::Status NodeTransport::Connect(wire::Address peer, const std::string& endpoint) {
  if (closed_) return absl::FailedPreconditionError("the transport is closed");
  return sender_.Connect(peer, endpoint);
}

// Others may be welcomed before us, and what they say to us then may come by a faster way than our
// own welcome: it waits, where it would be refused, and lost. We hear the scheduler by a connection
// of our own.
void NodeTransport::LookForWaiting() {
  const bool before = guests_wait_;
  guests_wait_ = session() == 0 && nodes_.identity().self().role != wire::Role::kScheduler;
  shm_links_.LetGuestsWait(guests_wait_);
  if (before && !guests_wait_) zmq_.Release();
}

void NodeTransport::SetSelf(wire::Address self) {
  nodes_.identity().SetSelf(self);
  LookForWaiting();
}

void NodeTransport::SetSession(uint64_t session) {
  nodes_.identity().SetSession(session);
  LookForWaiting();
}

bool NodeTransport::Waits(const std::string& peer) const {
  return guests_wait_ || (options_.keys != nullptr && nodes_.Waits(peer));
}

void NodeTransport::SetHolder(wire::Address node, const std::string& key) {
  if (!nodes_.SetHolder(node, key)) return;
  zmq_.Release();
  shm_links_.Progress();
}

absl::Status NodeTransport::Send(wire::Address node, const wire::Message& message) {
  if (closed_) return absl::FailedPreconditionError("the transport is closed");
  SOAP_ASSIGN_OR_RETURN(const wire::Message stamped, nodes_.identity().Stamp(node, message));
  absl::Status sent = sender_.Send(node, stamped);
  if (absl::IsResourceExhausted(sent) && TakeEarly()) sent = sender_.Send(node, stamped);
  if (!sent.ok()) counts_.Dropped();
  // Whose Hello is answered so belongs to the job, before it has said anything of the session.
  if (sent.ok() && message.type == wire::MessageType::kWelcome) {
    if (const Route* route = nodes_.RouteTo(node)) zmq_.Welcomed(route->routing_id);
  }
  return sent;
}

// Acknowledgements make room, and who sends without receiving must come on too: takes what is
// there, up to the first message, which waits for Receive. False: one waits already.
bool NodeTransport::TakeEarly() {
  if (early_.has_value()) return false;
  streams_.Look();
  wire::Message message;
  if (TakeOne(&message) == Taken::kMessage) early_ = std::move(message);
  Tend(SteadyNow());
  return true;
}

std::optional<wire::Message> NodeTransport::Receive(SteadyTime deadline) {
  if (early_.has_value()) return std::exchange(early_, std::nullopt);
  std::optional<wire::Message> message(std::in_place);
  if (++since_tend_ >= kTendEveryMessages) Tend(SteadyNow());
  for (bool waits = true; waits && !closed_;) {
    switch (TakeOne(&*message)) {
      case Taken::kMessage:
        return message;
      case Taken::kRejected:
        // A flood of garbage must not hold the caller beyond its deadline.
        waits = !wait_.TakeWake() && SteadyNow() < deadline;
        break;
      case Taken::kNothing:
        waits = !wait_.TakeWake() && Poll(deadline);
        break;
    }
  }
  message.reset();
  return message;
}

// Links before sockets, and now and then the other way round, so that neither starves.
NodeTransport::Taken NodeTransport::TakeLocal(wire::Message* message) {
  if (++since_progress_ >= kProgressEvery) {
    since_progress_ = 0;
    shm_links_.Progress();
  }
  if (local_.opening()) sender_.FollowOpening();
  if (++local_in_a_row_ > kLocalInARow) {
    local_in_a_row_ = 0;
    return Taken::kNothing;
  }
  KnownNodes::Arrival arrival = {.way = Way::kLink};
  if (!shm_links_.Receive(&arrival.route.link, &frames_)) {
    local_in_a_row_ = 0;
    return Taken::kNothing;
  }
  return Accept(arrival, message);
}

NodeTransport::Taken NodeTransport::TakeStream(wire::Message* message) {
  bool ours = false;
  if (!streams_.Receive(&stream_peer_, &ours, &frames_)) return Taken::kNothing;
  return Accept({.way = Way::kStream,
                 .route = {.routing_id = stream_peer_},
                 .answered = !ours,
                 .role = streams_.RoleOf(stream_peer_)},
                message);
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
  const Taken taken = Accept(
      {.route = {.routing_id = from.routing_id}, .answered = from.answered, .role = from.role},
      message);
  if (taken == Taken::kMessage) {
    // A stranger's Hello is no proof.
    const bool ours = session() != 0 && message->session == session();
    if (ours || !from.answered) zmq_.Watch(from);
    if (ours) zmq_.Prove(from.routing_id);
  }
  return taken;
}

void NodeTransport::TendIfDue(SteadyTime now) {
  const bool pressing = shm_links_.mending() || streams_.unfinished() || sender_.waiting();
  if (pressing || now - tended_at_ >= kTendAfter) Tend(now);
}

// What takes its time: connections made again, messages sent again, links given up.
void NodeTransport::Tend(SteadyTime now) {
  since_tend_ = 0;
  tended_at_ = now;
  zmq_.Tend(now);
  for (const LostLink& lost : zmq_.TakeLost()) Lose(lost);
  streams_.Tend();
  for (const LostLink& lost : streams_.TakeLost()) Lose(lost);
  if (shm_links_.mending()) shm_links_.Progress();
  for (const LostLocalLink& lost : shm_links_.TakeLost()) LoseLocal(lost);
  if (sender_.waiting()) sender_.Tend();
  for (LostNode& lost : sender_.TakeLost()) lost_.push_back(std::move(lost));
}

void NodeTransport::LoseLocal(const LostLocalLink& lost) {
  if (auto node = nodes_.LostWith({.link = lost.link}, lost.why)) lost_.push_back(*std::move(node));
}

void NodeTransport::Lose(const LostLink& lost) {
  streams_.Drop(lost.peer);
  auto node = nodes_.LostWith({.routing_id = lost.peer}, lost.why);
  if (node.has_value()) lost_.push_back(*std::move(node));
}

std::vector<wire::Address> NodeTransport::TakeEnded() {
  std::vector<Route> routes;
  for (const LinkId link : shm_links_.TakeEnded()) routes.push_back({.link = link});
  for (std::string& id : zmq_.sockets()->TakeEnded()) {
    routes.push_back({.routing_id = std::move(id)});
  }
  std::vector<wire::Address> ended;
  for (const Route& route : routes) {
    if (const auto node = nodes_.LostWith(route, ""); node.has_value()) ended.push_back(node->node);
  }
  return ended;
}

void NodeTransport::TakeNote(const ZmqSockets::Source& from, const Buffer& frame) {
  const std::optional<Handshake> note = DecodeNote(frame);
  if (note.has_value() && note->word == Handshake::Word::kProcess) {
    const absl::Status proven = nodes_.TakeProcess(from, *note);
    if (!proven.ok()) return rejections_.Add(proven, SteadyNow());
    if (note->session == 0) return;  // who made it has no rank yet
  }
  if (note.has_value() && session() == 0) return;  // from one that was welcomed before us
  if (!note.has_value() || note->session == 0 || note->session != session()) {
    const auto why = absl::InvalidArgumentError("a note of another session or release");
    return rejections_.Add(why, SteadyNow());
  }
  zmq_.Watch(from);
  zmq_.Prove(from.routing_id);
  counts_.ReceivedNote(frame.size());
  if (!options_.streams || !note->IsOfStream()) return;
  // Notes of the two roles do not go the same way, but where both may do without.
  const bool asks = note->word == Handshake::Word::kAsk;
  const bool offers = note->word == Handshake::Word::kOffer;
  if (from.answered ? !offers : !asks) {
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

// What is in frames_. A message is moved once on its way: to move one takes as long as to send a
// small one within the machine does in all its other parts.
NodeTransport::Taken NodeTransport::Accept(const KnownNodes::Arrival& arrival,
                                           wire::Message* message) {
  absl::StatusOr<wire::Received> received = arrival.way == Way::kZmq
                                                ? wire::Decode(frames_, options_.frame_limits)
                                                : wire::DecodeLocal(frames_, options_.frame_limits);
  const absl::Status admitted =
      received.ok() ? nodes_.Admit(*received, arrival) : received.status();
  if (admitted.ok()) {
    counts_.Received(arrival.way, received->message, frames_);
    *message = std::move(received->message);
  } else {
    rejections_.Add(admitted, SteadyNow());
  }
  frames_.clear();
  return admitted.ok() ? Taken::kMessage : Taken::kRejected;
}

// Waits until something may have arrived. False when the deadline has passed.
bool NodeTransport::Poll(SteadyTime deadline) {
  streams_.Flush();
  SteadyTime now = SteadyNow();
  TendIfDue(now);
  absl::Duration left = deadline - now;
  if (left <= absl::ZeroDuration()) {
    streams_.Look();
    return false;
  }
  if (streams_.readable()) return true;
  if (wait_.Spin(deadline, &now)) {
    TendIfDue(now);
  } else {
    Sleep(now, deadline);
  }
  if (local_.opening()) shm_links_.Progress();
  return true;
}

// Before a sleep all is tended, for it may be long. One that is cut short for what is due in a
// millisecond instead costs a timer of the machine, which is dearer.
void NodeTransport::Sleep(SteadyTime now, SteadyTime deadline) {
  if (now != tended_at_) Tend(now);
  // The processor may have been others' until the deadline had passed.
  absl::Duration left = std::min(deadline - now, zmq_.longest_sleep());
  if (streams_.unfinished() || shm_links_.mending() || sender_.waiting()) {
    left = std::min(left, kUnfinishedWait);
  }
  const NodeWait::Waited waited = wait_.Sleep(left);
  if (waited.of_links && !local_.opening()) shm_links_.Progress();
  TendIfDue(waited.ended);
}

// With keys a link is handed over after some words; what was sent by it goes then.
void NodeTransport::FinishOpening(SteadyTime deadline) {
  while (options_.keys != nullptr && local_.opening() && SteadyNow() < deadline) {
    shm_links_.Progress();
    sender_.FollowOpening();
    if (local_.opening()) absl::SleepFor(kOpeningLook);
  }
}

void NodeTransport::Close(absl::Duration linger) {
  if (closed_) return;
  const SteadyTime deadline = SteadyNow() + linger;
  FinishOpening(deadline);
  closed_ = true;
  shm_links_.Close();
  streams_.Close(deadline);
  zmq_.Close(deadline, counts_.sockets());
  RemoveSocketFile(socket_file_);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> MakeNodeTransport(const ZmqOptions& options) {
  auto transport = std::make_unique<NodeTransport>(options);
  SOAP_RETURN_IF_ERROR(transport->Open());
  return transport;
}

}  // namespace soapstone::transport
