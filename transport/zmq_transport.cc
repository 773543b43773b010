#include "transport/zmq_transport.h"

#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "transport/endpoint.h"
#include "transport/identity.h"
#include "transport/local_links.h"
#include "transport/rejections.h"
#include "transport/tcp_watch.h"
#include "transport/zmq_socket.h"
#include "wire/compact_header.h"

namespace soapstone::transport {
namespace {

constexpr int kSocketsMax = 16'384;                       // connections made by one node, at most
constexpr size_t kRoutingIdBytes = 15;                    // as many as a std::string holds in place
constexpr size_t kLinksMax = 16'384;                      // of the ROUTER, that are counted
constexpr absl::Duration kSpin = absl::Microseconds(20);  // before it sleeps, with links open
constexpr int kLocalInARow = 16;                          // messages of links to a look at sockets
constexpr int kProgressEvery = 256;                       // messages to a look at links' sockets

// How ROUTERs know a connection of ours: random, so that nobody can take it over by a guess.
absl::StatusOr<std::string> NewRoutingId() {
  std::string id(kRoutingIdBytes, '\0');
  if (getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size())) {
    return absl::InternalError(absl::StrCat("no random bytes: ", std::strerror(errno)));
  }
  id[0] = 'S';  // libzmq keeps ids that begin with a zero byte for itself
  return id;
}

// Closes the file descriptor and the context last, after all sockets.
struct Resources {
  ~Resources() {
    if (wake_fd >= 0) close(wake_fd);
    Terminate();
  }
  void Terminate() {
    while (context != nullptr && zmq_ctx_term(context) != 0 && errno == EINTR) {
    }
    context = nullptr;
  }
  void* context = nullptr;
  int wake_fd = -1;
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

class ZmqTransport final : public Transport {
 public:
  explicit ZmqTransport(const ZmqOptions& options)
      : options_(options), identity_(options.frame_limits), routes_(options.route_limits) {}
  ~ZmqTransport() override { Close(absl::ZeroDuration()); }

  absl::Status Open();

  absl::Status Connect(wire::Address peer, const std::string& endpoint) override;
  void SetSelf(wire::Address self) override { identity_.SetSelf(self); }
  void SetSession(uint64_t session) override { identity_.SetSession(session); }
  absl::Status Send(wire::Address node, const wire::Message& message) override;
  std::optional<wire::Message> Receive(absl::Time deadline) override;
  void Wake() override;
  void Close(absl::Duration linger) override;
  std::string endpoint() const override { return endpoint_; }
  TransportStats stats() const override {
    TransportStats stats = stats_;
    stats.rejected_messages = rejections_.count();
    return stats;
  }

 private:
  enum class Taken { kNothing, kRejected, kMessage };
  struct Dealer {
    ZmqSocket socket;
    LinkWatch link{ZmtpHandshakeBytes(kRoutingIdBytes)};
  };

  absl::Status SendStamped(wire::Address node, const wire::Message& message);
  absl::Status SendLocally(LinkId link, const wire::Message& message);
  absl::Status ConnectSocket(wire::Address peer, const std::string& endpoint);
  void ListenLocally();
  void FollowOpening();
  Taken TakeOne(wire::Message* message);
  Taken TakeLocal(wire::Message* message);
  absl::StatusOr<wire::Message> Accept(absl::Span<const Buffer> frames, const Route* route);
  // A valid message came by the connection `fd` of socket i.
  void Watch(size_t i, int fd);
  LinkWatch* LinkOf(const std::string& routing_id);
  bool TakeWake();
  bool Poll(absl::Time deadline);
  bool Spin(absl::Time until) const;
  ZmqSocketOptions SocketOptions() const;
  size_t socket_count() const { return dealers_.size() + (router_.open() ? 1 : 0); }
  ZmqSocket& socket(size_t i);
  void ListDealers();

  const ZmqOptions options_;
  Resources resources_;  // before the sockets: destroyed after them
  ZmqSocket router_;
  std::map<wire::Address, Dealer> connections_;
  std::vector<Dealer*> dealers_;                      // values of connections_, in order
  std::unordered_map<std::string, LinkWatch> links_;  // of the ROUTER, by routing id
  size_t next_socket_ = 0;                            // whose turn it is in TakeOne
  std::string endpoint_;
  bool closed_ = false;

  Identity identity_;
  RouteTable<Route> routes_;
  LocalLinks local_links_;
  std::map<wire::Address, LocalConnection> local_;
  bool opening_ = false;  // some of them
  int local_in_a_row_ = 0;
  int since_progress_ = 0;
  std::atomic<bool> wake_ = false;
  std::atomic<bool> sleeps_ = false;  // in Poll, or about to
  std::string local_header_;          // scratch of SendLocally
  std::vector<Buffer> frames_;        // scratch of TakeOne
  std::vector<pollfd> local_fds_;     // scratch of Poll
  TransportStats stats_;
  Rejections rejections_;
};

ZmqSocketOptions ZmqTransport::SocketOptions() const {
  return {.queue_messages_max = options_.queue_messages_max,
          .frame_bytes_max = static_cast<int64_t>(options_.frame_limits.frame_bytes_max)};
}

absl::Status ZmqTransport::Open() {
  resources_.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (resources_.wake_fd < 0) return absl::ResourceExhaustedError("too many open files");
  resources_.context = zmq_ctx_new();
  if (resources_.context == nullptr) return absl::ResourceExhaustedError("no ZeroMQ context");
  zmq_ctx_set(resources_.context, ZMQ_MAX_SOCKETS, kSocketsMax);
  if (options_.listen.empty()) return absl::OkStatus();
  SOAP_ASSIGN_OR_RETURN(const std::string address, BindAddress(options_.listen));
  SOAP_ASSIGN_OR_RETURN(router_, ZmqSocket::Open(resources_.context, ZMQ_ROUTER, SocketOptions()));
  SOAP_RETURN_IF_ERROR(router_.Bind(address));
  endpoint_ = ConnectAddress(options_.listen, router_.last_endpoint(), options_.advertise_host);
  if (options_.shared_memory) ListenLocally();
  return absl::OkStatus();
}

void ZmqTransport::ListenLocally() {
  absl::Status listening = absl::UnavailableError("the system gives no sealed memory (memfd)");
  if (SharedArena::Enable()) listening = local_links_.Listen(endpoint_);
  LOG_IF(INFO, !listening.ok()) << "no shared memory with other processes of this machine, which "
                                << "are reached at " << endpoint_
                                << " as well: " << listening.message();
}

absl::Status ZmqTransport::Connect(wire::Address peer, const std::string& endpoint) {
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
      connections_.erase(peer);
      ListDealers();
      return absl::OkStatus();
    }
  }
  return ConnectSocket(peer, endpoint);
}

absl::Status ZmqTransport::ConnectSocket(wire::Address peer, const std::string& endpoint) {
  ZmqSocketOptions socket_options = SocketOptions();
  SOAP_ASSIGN_OR_RETURN(socket_options.routing_id, NewRoutingId());
  Dealer dealer;
  SOAP_ASSIGN_OR_RETURN(dealer.socket,
                        ZmqSocket::Open(resources_.context, ZMQ_DEALER, socket_options));
  SOAP_RETURN_IF_ERROR(dealer.socket.Connect(endpoint));
  connections_[peer] = std::move(dealer);
  ListDealers();
  return absl::OkStatus();
}

void ZmqTransport::ListDealers() {
  dealers_.clear();
  for (auto& [peer, dealer] : connections_) dealers_.push_back(&dealer);
}

absl::Status ZmqTransport::Send(wire::Address node, const wire::Message& message) {
  if (closed_) return absl::FailedPreconditionError("the transport is closed");
  SOAP_ASSIGN_OR_RETURN(const wire::Message stamped, identity_.Stamp(node, message));
  absl::Status sent = SendStamped(node, stamped);
  if (!sent.ok()) ++stats_.dropped_messages;
  return sent;
}

void ZmqTransport::FollowOpening() {
  opening_ = false;
  for (auto it = local_.begin(); it != local_.end();) {
    LocalConnection& local = it->second;
    const LocalLinks::State state = local_links_.state(local.link);
    if (state == LocalLinks::State::kOpen) {
      local.opened = true;
      local.untaken.clear();
    }
    if (state != LocalLinks::State::kGone || local.opened) {
      opening_ = opening_ || state == LocalLinks::State::kOpening;
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

absl::Status ZmqTransport::SendLocally(LinkId link, const wire::Message& message) {
  wire::EncodeLocalHeader(message, identity_.self(), &local_header_);
  if (local_header_.size() > options_.frame_limits.header_bytes_max) {
    return absl::InvalidArgumentError("the message's header is too large");
  }
  SOAP_RETURN_IF_ERROR(local_links_.Send(link, local_header_, message.payload));
  ++stats_.sent_messages;
  stats_.sent.AddMessage(message.type, local_header_.size(), message.payload_bytes());
  stats_.shared_bytes += local_header_.size() + message.payload_bytes();
  return absl::OkStatus();
}

absl::Status ZmqTransport::SendStamped(wire::Address node, const wire::Message& message) {
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
  const auto connection = connections_.find(node);
  const Route* route = routes_.Find(node);
  if (connection == connections_.end() && route != nullptr && route->link != 0) {
    return SendLocally(route->link, message);
  }
  if (connection == connections_.end() && route == nullptr) {
    return absl::NotFoundError(absl::StrCat("no route to ", node.ToString()));
  }
  const std::string header = wire::EncodeHeader(message, identity_.self());
  if (header.size() > options_.frame_limits.header_bytes_max) {
    return absl::InvalidArgumentError("the message's header is too large");
  }
  const bool dealt = connection != connections_.end();
  const absl::Status sent = dealt ? connection->second.socket.Send("", header, message.payload)
                                  : router_.Send(route->routing_id, header, message.payload);
  if (!sent.ok()) {
    return absl::Status(sent.code(), absl::StrCat(node.ToString(), ": ", sent.message()));
  }
  ++stats_.sent_messages;
  const uint64_t payload_bytes = message.payload_bytes();
  const uint64_t framing = ZmtpFramingOf(header.size(), message.payload);
  stats_.sent.AddMessage(message.type, header.size(), payload_bytes);
  stats_.sent.framing += framing;
  LinkWatch* link = dealt ? &connection->second.link : LinkOf(route->routing_id);
  if (link != nullptr) link->OnGiven(header.size() + payload_bytes + framing);
  return absl::OkStatus();
}

std::optional<wire::Message> ZmqTransport::Receive(absl::Time deadline) {
  wire::Message message;
  while (!closed_) {
    switch (TakeOne(&message)) {
      case Taken::kMessage:
        return message;
      case Taken::kRejected:
        // A flood of garbage must not hold the caller beyond its deadline.
        if (TakeWake() || absl::Now() >= deadline) return std::nullopt;
        break;
      case Taken::kNothing:
        if (TakeWake() || !Poll(deadline)) return std::nullopt;
        break;
    }
  }
  return std::nullopt;
}

ZmqSocket& ZmqTransport::socket(size_t i) {
  if (!router_.open()) return dealers_[i]->socket;
  return i == 0 ? router_ : dealers_[i - 1]->socket;
}

LinkWatch* ZmqTransport::LinkOf(const std::string& routing_id) {
  const auto link = links_.find(routing_id);
  return link != links_.end() ? &link->second : nullptr;
}

void ZmqTransport::Watch(size_t i, int fd) {
  LinkWatch* link = nullptr;
  uint64_t handshake_bytes = ZmtpHandshakeBytes(kRoutingIdBytes);
  if (!router_.open() || i > 0) {
    link = &dealers_[router_.open() ? i - 1 : i]->link;
  } else {
    handshake_bytes = ZmtpHandshakeBytes(0);
    const std::string routing_id(reinterpret_cast<const char*>(frames_[0].data()),
                                 frames_[0].size());
    link = LinkOf(routing_id);
    if (link == nullptr && links_.size() < kLinksMax) {
      link = &links_.emplace(routing_id, LinkWatch(handshake_bytes)).first->second;
    }
  }
  if (link != nullptr && link->OnReceived(fd)) stats_.sent.framing += handshake_bytes;
}

// Links before sockets, and now and then the other way round, so that neither starves.
ZmqTransport::Taken ZmqTransport::TakeLocal(wire::Message* message) {
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
  absl::StatusOr<wire::Message> accepted = Accept(frames_, &route);
  if (!accepted.ok()) {
    rejections_.Add(accepted.status(), absl::Now());
    return Taken::kRejected;
  }
  *message = *std::move(accepted);
  return Taken::kMessage;
}

// Sockets take turns, one message each, so that a busy one does not starve the rest.
ZmqTransport::Taken ZmqTransport::TakeOne(wire::Message* message) {
  if (const Taken taken = TakeLocal(message); taken != Taken::kNothing) return taken;
  const size_t count = socket_count();
  for (size_t tried = 0; tried < count; ++tried) {
    const size_t i = next_socket_ % count;
    next_socket_ = i + 1;
    const bool routed = router_.open() && i == 0;
    // One frame beyond the limit is kept (and one for the routing id, one for the header), so
    // that Decode sees that there are too many.
    const size_t frames_max = options_.frame_limits.payload_frames_max + 3;
    int fd = -1;
    if (!socket(i).Receive(frames_max, &frames_, &fd)) continue;
    absl::Span<const Buffer> frames = frames_;
    Route route;
    if (routed) {
      route.routing_id.assign(reinterpret_cast<const char*>(frames[0].data()), frames[0].size());
      frames.remove_prefix(1);
    }
    absl::StatusOr<wire::Message> accepted = Accept(frames, routed ? &route : nullptr);
    if (accepted.ok()) Watch(i, fd);
    frames_.clear();
    if (!accepted.ok()) {
      rejections_.Add(accepted.status(), absl::Now());
      return Taken::kRejected;
    }
    *message = *std::move(accepted);
    return Taken::kMessage;
  }
  return Taken::kNothing;
}

// `route`: how the sender is answered; null: it was connected to.
absl::StatusOr<wire::Message> ZmqTransport::Accept(absl::Span<const Buffer> frames,
                                                   const Route* route) {
  const bool local = route != nullptr && route->link != 0;
  SOAP_ASSIGN_OR_RETURN(wire::Received received,
                        local ? wire::DecodeLocal(frames, options_.frame_limits)
                              : wire::Decode(frames, options_.frame_limits));
  SOAP_RETURN_IF_ERROR(identity_.Admit(received));
  const bool learns = route != nullptr && !local_.contains(received.sender);
  if (learns && !routes_.Learn(received.sender, *route, received.message.epoch)) {
    return absl::ResourceExhaustedError(
        "no room for another route, or of a former holder of the rank");
  }
  ++stats_.received_messages;
  stats_.received.AddMessage(received.message.type, frames[0].size(),
                             received.message.payload_bytes());
  if (!local) {
    stats_.received.framing += ZmtpFramingOf(frames[0].size(), frames.subspan(1));
  }
  return std::move(received.message);
}

void ZmqTransport::Wake() {
  wake_ = true;
  if (!sleeps_) return;
  const uint64_t one = 1;
  // Fails only when the counter is at its maximum: then the reader has been woken already.
  [[maybe_unused]] const ssize_t written = write(resources_.wake_fd, &one, sizeof(one));
}

bool ZmqTransport::TakeWake() { return wake_ && wake_.exchange(false); }

// True: something came on a link, or a Wake.
bool ZmqTransport::Spin(absl::Time until) const {
  do {
    for (int i = 0; i < 32; ++i) {
      if (wake_ || local_links_.readable()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (absl::Now() < until);
  return false;
}

// Waits until something may have arrived. False when the deadline has passed.
bool ZmqTransport::Poll(absl::Time deadline) {
  const absl::Duration left = deadline - absl::Now();
  if (left <= absl::ZeroDuration()) return false;
  // What comes within a moment is not worth a sleep.
  if (local_links_.any_open() && Spin(std::min(deadline, absl::Now() + kSpin))) return true;
  sleeps_ = true;
  if (wake_ || local_links_.PrepareToSleep()) {
    sleeps_ = false;
    return true;
  }
  std::vector<zmq_pollitem_t> items;
  items.reserve(socket_count() + 1);
  items.push_back({nullptr, resources_.wake_fd, ZMQ_POLLIN, 0});
  local_fds_.clear();
  local_links_.AddPollItems(&local_fds_);
  for (const pollfd& item : local_fds_) items.push_back({nullptr, item.fd, ZMQ_POLLIN, 0});
  const size_t local_end = items.size();
  for (size_t i = 0; i < socket_count(); ++i) {
    items.push_back({socket(i).handle(), 0, ZMQ_POLLIN, 0});
  }
  const absl::Duration wait = std::min(absl::Ceil(left, absl::Milliseconds(1)), absl::Hours(1));
  const int rc = zmq_poll(items.data(), static_cast<int>(items.size()),
                          static_cast<long>(absl::ToInt64Milliseconds(wait)));  // NOLINT: zmq's
  PCHECK(rc >= 0 || errno == EINTR) << "zmq_poll";
  sleeps_ = false;
  local_links_.Woke();
  if (rc > 0 && items[0].revents != 0) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(resources_.wake_fd, &count, sizeof(count));
  }
  const auto local_begin = items.begin() + 1;
  const bool of_links =
      rc > 0 && std::any_of(local_begin, items.begin() + static_cast<ptrdiff_t>(local_end),
                            [](const zmq_pollitem_t& item) { return item.revents != 0; });
  if (of_links || opening_) local_links_.Progress();
  return true;
}

void ZmqTransport::Close(absl::Duration linger) {
  if (closed_) return;
  closed_ = true;
  local_links_.Close();
  router_.Close(linger);
  for (auto& [peer, dealer] : connections_) dealer.socket.Close(linger);
  resources_.Terminate();  // waits for what lingers
  for (const auto& [peer, dealer] : connections_) stats_.sockets.Add(dealer.link.Counts());
  for (const auto& [routing_id, link] : links_) stats_.sockets.Add(link.Counts());
  dealers_.clear();
  connections_.clear();
  links_.clear();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> MakeZmqTransport(const ZmqOptions& options) {
  auto transport = std::make_unique<ZmqTransport>(options);
  SOAP_RETURN_IF_ERROR(transport->Open());
  return transport;
}

}  // namespace soapstone::transport
