// One libzmq socket, owned, with multipart messages as Buffers and errors as Status. Included by
// transport/*.cc only. Besides, security/ makes keys with libzmq; no other folder sees it.
#pragma once

#include <zmq.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/memory/buffer.h"
#include "security/process_keys.h"
#include "wire/message.h"

namespace soapstone::transport {

struct ZmqSocketOptions {
  int queue_messages_max = 10'000;  // per peer and direction
  int64_t frame_bytes_max = -1;     // a peer that sends more is disconnected; -1: no limit
  std::string routing_id;           // of a DEALER: how the ROUTER at the other end knows it
  int handshake_ms = 10'000;        // of a ROUTER: for who connects to speak ZeroMQ's language
  // Where set, everything is encrypted (CURVE): a ROUTER has its process's key and lets in who has
  // one of the job's roles', as a ZapHandler of the context says; a DEALER has its role's, and
  // speaks with nobody who has not `listener_key`.
  std::shared_ptr<const security::ProcessKeys> keys;
  wire::Role connects_to = wire::Role::kNone;
  security::PublicKey listener_key = {};
};

// Moves only. One thread at a time.
class ZmqSocket {
 public:
  // `type` is ZMQ_ROUTER or ZMQ_DEALER. `context` outlives the socket.
  static absl::StatusOr<ZmqSocket> Open(void* context, int type, const ZmqSocketOptions& options);

  ZmqSocket() = default;
  ZmqSocket(ZmqSocket&& other) noexcept { *this = std::move(other); }
  ZmqSocket& operator=(ZmqSocket&& other) noexcept;
  ~ZmqSocket() { Close(absl::ZeroDuration()); }

  // AlreadyExists: the address is in use. InvalidArgument: it cannot be bound or connected to.
  absl::Status Bind(const std::string& endpoint);
  absl::Status Connect(const std::string& endpoint);
  std::string last_endpoint() const;

  // Queues `header` and `payload` as one message; for a ROUTER, to the peer of `routing_id` (empty
  // for a DEALER). Never blocks. The payload's bytes are shared until they are sent.
  // Errors: ResourceExhausted (queue full), NotFound (no such peer), Unavailable (the peer left
  // meanwhile).
  absl::Status Send(std::string_view routing_id, std::string_view header,
                    absl::Span<const Buffer> payload);

  // Takes the next message's frames, at most frames_max of them (the rest is dropped), each
  // 4-byte aligned, the descriptor of the connection it came by (-1: libzmq does not say), and
  // whose key was shown there (kNone: of a socket without keys), where asked. False when there is
  // none.
  bool Receive(size_t frames_max, Buffers* frames, int* fd, wire::Role* role = nullptr);

  // Of a socket that has not connected yet: from here on it is known whether its connection has
  // ended, also where nothing had come by it, and its descriptor. `context`: the socket's.
  // Errors: ResourceExhausted.
  absl::Status WatchConnection(void* context);
  // Its one connection, or the attempt at it: there will be no other.
  bool HasEnded();
  // Now, as far as libzmq has told.
  bool IsConnected();
  // Negative: there is no connection.
  int ConnectedFd();
  // Ends the connection, as its network might: both ends are told.
  void EndConnection();

  // Unsent messages stay queued for `linger` (context termination waits for that).
  void Close(absl::Duration linger);

  void* handle() const { return socket_; }
  bool open() const { return socket_ != nullptr; }

 private:
  void TakeEvents();

  void* socket_ = nullptr;
  // Of a socket with keys.
  bool asks_who_ = false;                       // a ROUTER: each connection's differs
  wire::Role connects_to_ = wire::Role::kNone;  // a DEALER: CURVE has proved that it is
  void* events_ = nullptr;                      // where libzmq tells of connections
  bool ended_ = false;
  bool connected_ = false;
  int fd_ = -1;  // of the connection; libzmq's
};

}  // namespace soapstone::transport
