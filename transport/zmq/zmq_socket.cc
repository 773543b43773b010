#include "transport/zmq/zmq_socket.h"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "transport/zmq/zap_handler.h"

namespace soapstone::transport {
namespace {

// Below this a copy is cheaper than sharing (an allocation, two atomic operations).
constexpr size_t kShareBytesMin = 512;
// libzmq makes no second connection by itself: of one that it makes it tells afterwards, and it
// goes on in the middle of what was queued. Sessions dial again (transport/node/numbered_links.h).
constexpr int kReconnectMs = 24 * 3'600'000;
// Bytes that nobody acknowledges for this long, or a connection that is not answered: another is
// made, as TCP itself tries again less and less often. Sessions lose nothing by it.
constexpr int kUnansweredMaxMs = 2000;
constexpr int kConnectMaxMs = 1000;
constexpr int kBacklog = 128;  // connections that nobody has accepted yet
constexpr int kKeepaliveIdleS = 30;
constexpr int kKeepaliveIntervalS = 10;
constexpr int kKeepaliveProbes = 3;

// A received frame; Buffers share it.
struct ReceivedFrame {
  ReceivedFrame() { zmq_msg_init(&message); }
  ~ReceivedFrame() { zmq_msg_close(&message); }
  ReceivedFrame(const ReceivedFrame&) = delete;
  ReceivedFrame& operator=(const ReceivedFrame&) = delete;
  zmq_msg_t message;
};

Buffer Share(std::shared_ptr<ReceivedFrame> frame) {
  const void* data = zmq_msg_data(&frame->message);
  const size_t size = zmq_msg_size(&frame->message);
  // libzmq delivers small frames as views into its read buffer, at any offset.
  if (reinterpret_cast<uintptr_t>(data) % alignof(float) != 0) return Buffer::CopyOf(data, size);
  return Buffer(std::move(frame), data, size);
}

absl::Status SocketError(const char* what, const std::string& endpoint) {
  const int error = errno;
  if (error == EADDRINUSE) {
    return absl::AlreadyExistsError(
        absl::StrCat("address in use: ", endpoint,
                     ": another process listens there; stop it or choose another port"));
  }
  const char* const why = error == EADDRNOTAVAIL ? "that is no address of this machine"
                          : error == ENODEV      ? "that names no address of this machine"
                                                 : zmq_strerror(error);
  const std::string text = absl::StrCat("cannot ", what, " ", endpoint, ": ", why);
  switch (error) {
    case EMFILE:
    case ENOMEM:
      return absl::ResourceExhaustedError(text);
    case EACCES:
      return absl::PermissionDeniedError(text);
    default:
      return absl::InvalidArgumentError(text);
  }
}

absl::Status SendError(int error) {
  switch (error) {
    case EAGAIN:
      return absl::ResourceExhaustedError("the peer's send queue is full");
    case EHOSTUNREACH:
      return absl::NotFoundError("the peer is not connected");
    default:
      return absl::UnavailableError(zmq_strerror(error));
  }
}

// Consumes `message`. Zero, or the errno.
int SendFrame(void* socket, zmq_msg_t* message, bool more) {
  const int flags = ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0);
  int rc = 0;
  do {
    rc = zmq_msg_send(message, socket, flags);
  } while (rc < 0 && errno == EINTR);
  if (rc >= 0) return 0;
  const int error = errno;
  zmq_msg_close(message);
  return error;
}

// In the place of a frame for which there is no memory, so that the message keeps its end; the
// receiver sees that a size is wrong, and rejects it.
int SendEmpty(void* socket, bool more) {
  zmq_msg_t message;
  zmq_msg_init(&message);
  const int error = SendFrame(socket, &message, more);
  return error != 0 ? error : ENOMEM;
}

int SendCopy(void* socket, std::string_view bytes, bool more) {
  zmq_msg_t message;
  if (zmq_msg_init_size(&message, bytes.size()) != 0) return SendEmpty(socket, more);
  if (!bytes.empty()) std::memcpy(zmq_msg_data(&message), bytes.data(), bytes.size());
  return SendFrame(socket, &message, more);
}

void ReleaseShared(void* /*data*/, void* buffer) { delete static_cast<Buffer*>(buffer); }

int SendShared(void* socket, const Buffer& buffer, bool more) {
  auto held = std::make_unique<Buffer>(buffer);
  zmq_msg_t message;
  // libzmq does not write to the data of a message it sends.
  void* data = const_cast<std::byte*>(held->data());
  if (zmq_msg_init_data(&message, data, held->size(), ReleaseShared, held.get()) != 0) {
    return SendEmpty(socket, more);
  }
  (void)held.release();  // ReleaseShared's now
  return SendFrame(socket, &message, more);
}

void SetOption(void* socket, int option, int value) {
  CHECK_EQ(zmq_setsockopt(socket, option, &value, sizeof(value)), 0) << option;
}

void SetKey(void* socket, int option, const uint8_t* key) {
  CHECK_EQ(zmq_setsockopt(socket, option, key, security::Secret::kBytes), 0) << option;
}

// From here on libzmq takes no other mechanism from the other side.
void SetKeys(void* socket, int type, const ZmqSocketOptions& options) {
  if (type == ZMQ_DEALER) {
    SetKey(socket, ZMQ_CURVE_SECRETKEY, options.keys->job->secret.data());
    SetKey(socket, ZMQ_CURVE_PUBLICKEY, options.keys->job->own().data());
    SetKey(socket, ZMQ_CURVE_SERVERKEY, options.listener_key.data());
    return;
  }
  SetKey(socket, ZMQ_CURVE_SECRETKEY, options.keys->own.secret.data());
  SetOption(socket, ZMQ_CURVE_SERVER, 1);
  CHECK_EQ(zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, kZapDomain, sizeof(kZapDomain) - 1), 0);
}

}  // namespace

absl::StatusOr<ZmqSocket> ZmqSocket::Open(void* context, int type,
                                          const ZmqSocketOptions& options) {
  ZmqSocket opened;
  opened.socket_ = zmq_socket(context, type);
  void* socket = opened.socket_;
  if (socket == nullptr) return SocketError("open a socket for", "this process");
  SetOption(socket, ZMQ_LINGER, 0);
  SetOption(socket, ZMQ_SNDHWM, options.queue_messages_max);
  SetOption(socket, ZMQ_RCVHWM, options.queue_messages_max);
  SetOption(socket, ZMQ_TCP_KEEPALIVE, 1);
  SetOption(socket, ZMQ_TCP_KEEPALIVE_IDLE, kKeepaliveIdleS);
  SetOption(socket, ZMQ_TCP_KEEPALIVE_INTVL, kKeepaliveIntervalS);
  SetOption(socket, ZMQ_TCP_KEEPALIVE_CNT, kKeepaliveProbes);
  SetOption(socket, ZMQ_RECONNECT_IVL, kReconnectMs);
  SetOption(socket, ZMQ_TCP_MAXRT, kUnansweredMaxMs);
  SetOption(socket, ZMQ_CONNECT_TIMEOUT, kConnectMaxMs);
  CHECK_EQ(zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &options.frame_bytes_max, sizeof(int64_t)), 0);
  if (type == ZMQ_ROUTER) {
    SetOption(socket, ZMQ_HANDSHAKE_IVL, options.handshake_ms);
    SetOption(socket, ZMQ_BACKLOG, kBacklog);
    SetOption(socket, ZMQ_ROUTER_MANDATORY, 1);
    // A peer that reconnects takes its routing id along; the id is random, so nobody else can.
    SetOption(socket, ZMQ_ROUTER_HANDOVER, 1);
  }
  if (type == ZMQ_DEALER) {
    // The first connection begins with a knock, an empty message, by which the ROUTER knows our
    // routing id before anything large comes (transport/zmq/door.h).
    SetOption(socket, ZMQ_PROBE_ROUTER, 1);
  }
  if (!options.routing_id.empty()) {
    CHECK_EQ(zmq_setsockopt(socket, ZMQ_ROUTING_ID, options.routing_id.data(),
                            options.routing_id.size()),
             0);
  }
  if (options.keys != nullptr) {
    SetKeys(socket, type, options);
    opened.asks_who_ = type == ZMQ_ROUTER;
    opened.connects_to_ = options.connects_to;
  }
  return opened;
}

ZmqSocket& ZmqSocket::operator=(ZmqSocket&& other) noexcept {
  Close(absl::ZeroDuration());
  socket_ = std::exchange(other.socket_, nullptr);
  events_ = std::exchange(other.events_, nullptr);
  ended_ = std::exchange(other.ended_, false);
  connected_ = std::exchange(other.connected_, false);
  fd_ = std::exchange(other.fd_, -1);
  asks_who_ = other.asks_who_;
  connects_to_ = other.connects_to_;
  return *this;
}

absl::Status ZmqSocket::WatchConnection(void* context) {
  const auto fails = [] {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot watch a connection: ", zmq_strerror(errno)));
  };
  static std::atomic<uint64_t> last = 0;
  const std::string at = absl::StrCat("inproc://ends-", ++last);
  // Where an attempt fails, or what speaks there is not ZeroMQ, nothing disconnects.
  constexpr int kEvents = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CONNECT_RETRIED;
  if (zmq_socket_monitor(socket_, at.c_str(), kEvents) != 0) return fails();
  events_ = zmq_socket(context, ZMQ_PAIR);
  if (events_ == nullptr) return fails();
  // libzmq's thread would wait for room.
  SetOption(events_, ZMQ_RCVHWM, 0);
  SetOption(events_, ZMQ_LINGER, 0);
  if (zmq_connect(events_, at.c_str()) != 0) return fails();
  return absl::OkStatus();
}

// An event is two frames: what it is and the descriptor, and where to.
void ZmqSocket::TakeEvents() {
  if (events_ == nullptr) return;
  struct __attribute__((packed)) {
    uint16_t what;
    int32_t fd;
  } event;
  zmq_msg_t message;
  zmq_msg_init(&message);
  while (zmq_msg_recv(&message, events_, ZMQ_DONTWAIT) >= 0) {
    if (zmq_msg_more(&message) == 0 || zmq_msg_size(&message) != sizeof(event)) continue;
    std::memcpy(&event, zmq_msg_data(&message), sizeof(event));
    connected_ = event.what == ZMQ_EVENT_CONNECTED;
    if (connected_) fd_ = event.fd;
    ended_ = !connected_;
  }
  zmq_msg_close(&message);
}

bool ZmqSocket::HasEnded() {
  TakeEvents();
  return ended_;
}

bool ZmqSocket::IsConnected() {
  TakeEvents();
  return connected_;
}

int ZmqSocket::ConnectedFd() {
  TakeEvents();
  return ended_ ? -1 : fd_;
}

// The descriptor may be another connection's by now, if this one ended a moment ago: sessions go on
// over that one's next. So it is done once.
void ZmqSocket::EndConnection() {
  TakeEvents();
  if (connected_ && fd_ >= 0) shutdown(std::exchange(fd_, -1), SHUT_RDWR);
}

absl::Status ZmqSocket::Bind(const std::string& endpoint) {
  if (zmq_bind(socket_, endpoint.c_str()) != 0) return SocketError("listen on", endpoint);
  return absl::OkStatus();
}

absl::Status ZmqSocket::Connect(const std::string& endpoint) {
  if (zmq_connect(socket_, endpoint.c_str()) != 0) return SocketError("connect to", endpoint);
  return absl::OkStatus();
}

std::string ZmqSocket::last_endpoint() const {
  char text[1024];
  size_t size = sizeof(text);
  if (zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, text, &size) != 0) return "";
  return text;
}

absl::Status ZmqSocket::Send(std::string_view routing_id, std::string_view header,
                             absl::Span<const Buffer> payload) {
  if (!routing_id.empty()) {
    if (const int error = SendCopy(socket_, routing_id, true)) return SendError(error);
  }
  int error = SendCopy(socket_, header, !payload.empty());
  if (error != 0 && routing_id.empty()) return SendError(error);
  // From here on the message has begun. When the peer leaves in between, libzmq drops what
  // follows; every frame must still be handed over, or the next message would be cut.
  for (size_t i = 0; i < payload.size(); ++i) {
    const bool more = i + 1 < payload.size();
    const std::byte* data = payload[i].data();
    const int rc =
        payload[i].size() < kShareBytesMin
            ? SendCopy(socket_, {reinterpret_cast<const char*>(data), payload[i].size()}, more)
            : SendShared(socket_, payload[i], more);
    if (rc != 0) error = rc;
  }
  if (error != 0) return absl::UnavailableError("the peer left while the message was sent");
  return absl::OkStatus();
}

bool ZmqSocket::Receive(size_t frames_max, Buffers* frames, int* fd, wire::Role* role) {
  frames->clear();
  if (role != nullptr) *role = connects_to_;
  bool more = true;
  while (more) {
    auto frame = std::allocate_shared<ReceivedFrame>(RecyclingAllocator<ReceivedFrame>());
    if (zmq_msg_recv(&frame->message, socket_, ZMQ_DONTWAIT) < 0) {
      if (errno == EINTR) continue;
      // Nothing there: libzmq hands out a message only when all its frames have arrived.
      frames->clear();
      return false;
    }
    more = zmq_msg_more(&frame->message) != 0;
    if (!more) *fd = zmq_msg_get(&frame->message, ZMQ_SRCFD);
    if (!more && asks_who_ && role != nullptr) {
      const char* const user = zmq_msg_gets(&frame->message, "User-Id");
      *role = user != nullptr ? RoleOfUserId(user) : wire::Role::kNone;
    }
    if (frames->size() < frames_max) frames->push_back(Share(std::move(frame)));
  }
  return true;
}

void ZmqSocket::Close(absl::Duration linger) {
  if (socket_ == nullptr) return;
  // First no more events: libzmq's thread would wait for ever for somebody to tell them to, and all
  // connections of this process with it.
  if (events_ != nullptr) zmq_socket_monitor(socket_, nullptr, 0);
  constexpr absl::Duration kLingerMax = absl::Hours(24);
  SetOption(socket_, ZMQ_LINGER,
            static_cast<int>(
                absl::ToInt64Milliseconds(std::clamp(linger, absl::ZeroDuration(), kLingerMax))));
  zmq_close(socket_);
  socket_ = nullptr;
  if (events_ == nullptr) return;
  zmq_close(events_);
  events_ = nullptr;
}

}  // namespace soapstone::transport
