#include "transport/zmq/zmq_sockets.h"

#include <sys/random.h>
#include <zmq.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace soapstone::transport {
namespace {

constexpr int kSocketsMax = 3 * 16'384;  // three for each connection that this node makes
constexpr size_t kRoutingIdBytes = 15;   // as many as a std::string holds in place
constexpr size_t kAnsweredMax = 16'384;  // links of the ROUTER that are counted
constexpr size_t kGivenBeforeMax = 1024;
constexpr size_t kEndedIdsMax = 4096;
constexpr absl::Duration kLingerMin = absl::Milliseconds(50);

// How ROUTERs know a connection of ours: random, so that nobody can take it over by a guess.
absl::StatusOr<std::string> NewRoutingId() {
  std::string id(kRoutingIdBytes, '\0');
  if (getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size())) {
    return absl::InternalError(absl::StrCat("no random bytes: ", std::strerror(errno)));
  }
  id[0] = 'S';  // libzmq keeps ids that begin with a zero byte for itself
  return id;
}

// With the knock.
uint64_t DealerHandshakeBytes() { return ZmtpHandshakeBytes(kRoutingIdBytes) + ZmtpFrameBytes(0); }

uint64_t BytesOf(std::string_view header, absl::Span<const Buffer> payload) {
  uint64_t bytes = header.size() + ZmtpFramingOf(header.size(), payload);
  for (const Buffer& frame : payload) bytes += frame.size();
  return bytes;
}

}  // namespace

ZmqSockets::~ZmqSockets() {
  CloseDoor();
  router_.Close(absl::ZeroDuration());
  CloseZap();
  connections_.clear();
  retired_.Close(absl::ZeroDuration());
  Terminate();
}

void ZmqSockets::Terminate() {
  while (context_ != nullptr && zmq_ctx_term(context_) != 0 && errno == EINTR) {
  }
  context_ = nullptr;
}

absl::Status ZmqSockets::Open() {
  context_ = zmq_ctx_new();
  if (context_ == nullptr) return absl::ResourceExhaustedError("no ZeroMQ context");
  zmq_ctx_set(context_, ZMQ_MAX_SOCKETS, kSocketsMax);
  return absl::OkStatus();
}

absl::Status ZmqSockets::Listen(const std::string& address) {
  if (options_.keys != nullptr) {
    SOAP_ASSIGN_OR_RETURN(zap_, ZapHandler::Open(context_, options_.keys->job));
  }
  SOAP_ASSIGN_OR_RETURN(router_, ZmqSocket::Open(context_, ZMQ_ROUTER, options_));
  // A path of a file system has its own guard.
  if (address.rfind("tcp://", 0) == 0) {
    SOAP_ASSIGN_OR_RETURN(door_, DoorWatch::Open(context_, router_.handle(), door_limits_,
                                                 absl::Milliseconds(options_.handshake_ms)));
  }
  return router_.Bind(address);
}

absl::Status ZmqSockets::Connect(wire::Address peer, const std::string& endpoint,
                                 const security::PublicKey& key) {
  SOAP_ASSIGN_OR_RETURN(const std::string id, NewRoutingId());
  SOAP_ASSIGN_OR_RETURN(ZmqSocket socket, Dial(peer.role, key, id, endpoint));
  Retire(peer);
  connections_.insert_or_assign(peer, Connection{.socket = std::move(socket),
                                                 .routing_id = id,
                                                 .endpoint = endpoint,
                                                 .peer = peer.role,
                                                 .key = key,
                                                 .link = LinkWatch(DealerHandshakeBytes())});
  List();
  return absl::OkStatus();
}

absl::StatusOr<ZmqSocket> ZmqSockets::Dial(wire::Role peer, const security::PublicKey& key,
                                           const std::string& id, const std::string& endpoint) {
  ZmqSocketOptions options = options_;
  options.connects_to = peer;
  options.listener_key = key;
  options.routing_id = id;
  SOAP_ASSIGN_OR_RETURN(ZmqSocket socket, ZmqSocket::Open(context_, ZMQ_DEALER, options));
  SOAP_RETURN_IF_ERROR(socket.WatchConnection(context_));
  SOAP_RETURN_IF_ERROR(socket.Connect(endpoint));
  return socket;
}

absl::Status ZmqSockets::Redial(const std::string& id) {
  Connection* connection = FindByRoutingId(id);
  if (connection == nullptr) return absl::NotFoundError("no such connection");
  SOAP_ASSIGN_OR_RETURN(ZmqSocket socket,
                        Dial(connection->peer, connection->key, id, connection->endpoint));
  retired_.Take(std::exchange(connection->socket, std::move(socket)), SteadyNow());
  connection->unheard.reset();
  connection->link.Renew();
  return absl::OkStatus();
}

void ZmqSockets::Retire(wire::Address peer) {
  Connection* connection = Find(peer);
  if (connection == nullptr) return;
  retired_.Take(std::move(connection->socket), SteadyNow());
}

void ZmqSockets::Disconnect(wire::Address peer) {
  Retire(peer);
  connections_.erase(peer);
  List();
}

void ZmqSockets::List() {
  listed_.clear();
  for (auto& [peer, connection] : connections_) listed_.push_back(&connection);
}

ZmqSockets::Connection* ZmqSockets::Find(wire::Address peer) {
  const auto found = connections_.find(peer);
  return found == connections_.end() ? nullptr : &found->second;
}

ZmqSockets::Connection* ZmqSockets::FindByRoutingId(const std::string& id) {
  for (Connection* connection : listed_) {
    if (connection->routing_id == id) return connection;
  }
  return nullptr;
}

std::vector<std::string> ZmqSockets::Broken() {
  std::vector<std::string> broken;
  for (Connection* connection : listed_) {
    const bool ended = connection->socket.HasEnded();
    if (ended || connection->link.broken()) broken.push_back(connection->routing_id);
  }
  return broken;
}

// The first message may be the large one.
MovedBytes ZmqSockets::Connection::Moved() {
  if (link.fd() >= 0) {
    unheard.reset();
    return link.moved();
  }
  if (!unheard.has_value()) unheard = TcpWatch::Of(socket.ConnectedFd());
  return unheard.has_value() ? unheard->moved() : MovedBytes{};
}

MovedBytes ZmqSockets::MovedOn(const std::string& id, bool ours) {
  if (ours) {
    Connection* connection = FindByRoutingId(id);
    return connection != nullptr ? connection->Moved() : MovedBytes{};
  }
  const LinkWatch* link = AnsweredLink(id);
  return link != nullptr ? link->moved() : MovedBytes{};
}

std::optional<wire::Address> ZmqSockets::PeerOf(const std::string& id) const {
  for (const auto& [peer, connection] : connections_) {
    if (connection.routing_id == id) return peer;
  }
  return std::nullopt;
}

absl::Status ZmqSockets::SendTo(Connection* connection, std::string_view header,
                                absl::Span<const Buffer> payload) {
  SOAP_RETURN_IF_ERROR(connection->socket.Send("", header, payload));
  connection->link.OnGiven(BytesOf(header, payload));
  return absl::OkStatus();
}

absl::Status ZmqSockets::Answer(const std::string& routing_id, std::string_view header,
                                absl::Span<const Buffer> payload) {
  SOAP_RETURN_IF_ERROR(router_.Send(routing_id, header, payload));
  const uint64_t bytes = BytesOf(header, payload);
  if (LinkWatch* link = AnsweredLink(routing_id)) {
    link->OnGiven(bytes);
  } else {
    given_before_.emplace_back(routing_id, bytes);
    if (given_before_.size() > kGivenBeforeMax) given_before_.pop_front();
  }
  return absl::OkStatus();
}

uint64_t ZmqSockets::TakeGivenBefore(const std::string& routing_id) {
  uint64_t bytes = 0;
  std::erase_if(given_before_, [&](const auto& given) {
    if (given.first != routing_id) return false;
    bytes += given.second;
    return true;
  });
  return bytes;
}

void ZmqSockets::CloseDoor() {
  if (door_ != nullptr) {
    strangers_ += door_->strangers();
    handshakes_.Add(door_->handshakes());
  }
  door_ = nullptr;
}

// Behind the ROUTER: where nobody answers libzmq lets everybody in, though without a User-Id.
void ZmqSockets::CloseZap() {
  if (zap_ != nullptr) handshakes_.Add({.keys = zap_->strangers(), .roles = zap_->misplaced()});
  zap_ = nullptr;
}

HandshakeFailures ZmqSockets::handshakes() const {
  HandshakeFailures failures = handshakes_;
  if (door_ != nullptr) failures.Add(door_->handshakes());
  if (zap_ != nullptr) failures.Add({.keys = zap_->strangers(), .roles = zap_->misplaced()});
  return failures;
}

ZmqSocket& ZmqSockets::socket(size_t i) {
  if (!router_.open()) return listed_[i]->socket;
  return i == 0 ? router_ : listed_[i - 1]->socket;
}

LinkWatch* ZmqSockets::AnsweredLink(const std::string& routing_id) {
  const auto link = links_.find(routing_id);
  return link != links_.end() ? &link->second : nullptr;
}

bool ZmqSockets::Receive(size_t frames_max, Buffers* frames, Source* from) {
  const size_t sockets = count();
  for (size_t tried = 0; tried < sockets; ++tried) {
    const size_t i = next_ % sockets;
    next_ = i + 1;
    if (!socket(i).Receive(frames_max + 1, frames, &from->fd, &from->role)) continue;
    if (options_.keys != nullptr && from->role == wire::Role::kNone) continue;
    if (door_ != nullptr) door_->Reads();
    from->socket = i;
    from->answered = router_.open() && i == 0;
    if (from->answered) {
      const Buffer& id = frames->front();
      from->routing_id.assign(reinterpret_cast<const char*>(id.data()), id.size());
      frames->erase(frames->begin());
      if (door_ != nullptr && from->fd >= 0) Hear(*from);
    } else {
      from->routing_id = listed_[router_.open() ? i - 1 : i]->routing_id;
    }
    return true;
  }
  if (door_ != nullptr) door_->AllRead();
  ended_unheard_.clear();
  return false;
}

void ZmqSockets::Hear(const Source& from) {
  const auto heard = heard_.find(from.fd);
  if (heard != heard_.end() && heard->second == from.routing_id) return;
  CollectEnded();  // among them who had the descriptor before
  if (door_->HasEnded(from.fd) || ended_unheard_.contains(from.fd)) {
    // It was under way; or is of who has the descriptor since, and will be heard again.
    ended_.push_back(from.routing_id);
  } else {
    heard_.insert_or_assign(from.fd, from.routing_id);
  }
}

void ZmqSockets::CollectEnded() {
  for (const int fd : door_->TakeEnded()) {
    ended_unheard_.insert(fd);
    const auto heard = heard_.find(fd);
    if (heard == heard_.end()) continue;
    ended_.push_back(std::move(heard->second));
    heard_.erase(heard);
  }
  if (ended_.size() > kEndedIdsMax) ended_.erase(ended_.begin(), ended_.end() - kEndedIdsMax);
}

std::vector<std::string> ZmqSockets::TakeEnded() {
  if (door_ != nullptr) CollectEnded();
  return std::exchange(ended_, {});
}

void ZmqSockets::Prove(const Source& from) {
  if (door_ != nullptr && door_->Prove(from.fd) && proven_.size() < kAnsweredMax) {
    proven_.insert_or_assign(from.routing_id, from.fd);
  }
}

void ZmqSockets::ProveHeard(const std::string& routing_id) {
  if (door_ == nullptr || routing_id.empty()) return;
  CollectEnded();
  const auto by = std::find_if(heard_.begin(), heard_.end(),
                               [&](const auto& heard) { return heard.second == routing_id; });
  if (by != heard_.end()) Prove({.routing_id = routing_id, .fd = by->first});
}

void ZmqSockets::Knocked(const Source& from) {
  proven_.erase(from.routing_id);
  Prove(from);
}

uint64_t ZmqSockets::Watch(const Source& from) {
  LinkWatch* link = nullptr;
  uint64_t handshake_bytes = DealerHandshakeBytes();
  if (!from.answered) {
    link = &listed_[router_.open() ? from.socket - 1 : from.socket]->link;
  } else {
    handshake_bytes = ZmtpHandshakeBytes(0);
    link = AnsweredLink(from.routing_id);
    if (link == nullptr && links_.size() < kAnsweredMax) {
      link = &links_.emplace(from.routing_id, LinkWatch(handshake_bytes)).first->second;
      link->OnGiven(TakeGivenBefore(from.routing_id));
    }
    // Its knock may have come before it was known whose it was.
    const auto proven = proven_.find(from.routing_id);
    if (proven == proven_.end() || proven->second != from.fd) Prove(from);
  }
  return link != nullptr && link->OnReceived(from.fd) ? handshake_bytes : 0;
}

void ZmqSockets::AddPollItems(std::vector<zmq_pollitem_t>* items) {
  for (size_t i = 0; i < count(); ++i) items->push_back({socket(i).handle(), 0, ZMQ_POLLIN, 0});
}

void ZmqSockets::Close(absl::Duration linger, SocketCounts* counts) {
  // The other end often closes too: why its end must not come meanwhile, RetiredSockets says.
  linger = std::max(linger, kLingerMin);
  CloseDoor();
  router_.Close(linger);
  CloseZap();
  for (Connection* connection : listed_) connection->socket.Close(linger);
  retired_.Close(linger);
  Terminate();  // waits for what lingers
  // What CURVE adds to what was given is libzmq's: with keys there is nothing to compare.
  if (options_.keys == nullptr) {
    for (const Connection* connection : listed_) counts->Add(connection->link.Counts());
    for (const auto& [routing_id, link] : links_) counts->Add(link.Counts());
  }
  listed_.clear();
  connections_.clear();
  links_.clear();
  proven_.clear();
  heard_.clear();
  ended_unheard_.clear();
}

}  // namespace soapstone::transport
