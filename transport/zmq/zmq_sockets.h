// ZmqSockets: the ZeroMQ sockets of one node: a ROUTER where it listens, and a DEALER for each node
// it connected to; with what the kernel counts of their connections. Moves frames; knows nothing of
// what they mean. Who calls: the ZeroMQ transport.
//
// A connection is known by its routing id, made by who connects: the ROUTER at the other end knows
// it by that too.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/memory/buffer.h"
#include "base/steady_clock.h"
#include "transport/byte_counts.h"
#include "transport/tcp_watch.h"
#include "transport/zmq/door_watch.h"
#include "transport/zmq/retired_sockets.h"
#include "transport/zmq/zap_handler.h"
#include "transport/zmq/zmq_socket.h"
#include "wire/message.h"

namespace soapstone::transport {

// One thread at a time.
class ZmqSockets {
 public:
  ZmqSockets(ZmqSocketOptions options, DoorLimits door)
      : options_(std::move(options)), door_limits_(door) {}
  ~ZmqSockets();
  ZmqSockets(const ZmqSockets&) = delete;
  ZmqSockets& operator=(const ZmqSockets&) = delete;

  absl::Status Open();
  absl::Status Listen(const std::string& address);
  bool listens() const { return router_.open(); }
  std::string bound_to() const { return router_.last_endpoint(); }

  // Replaces an earlier connection to the peer. `key`: with keys, of the peer's process.
  absl::Status Connect(wire::Address peer, const std::string& endpoint,
                       const security::PublicKey& key);
  void Disconnect(wire::Address peer);
  // Another connection takes the place of the one that is known by `id`, under the same name.
  absl::Status Redial(const std::string& id);
  struct Connection {
    ZmqSocket socket;
    std::string routing_id;
    std::string endpoint;
    wire::Role peer = wire::Role::kNone;
    security::PublicKey key = {};  // with keys, of its process
    LinkWatch link;
    std::optional<TcpWatch> unheard = {};  // until something has come by it
    MovedBytes Moved();
  };
  Connection* Find(wire::Address peer);                // null: not connected to
  Connection* FindByRoutingId(const std::string& id);  // the same

  // Those whose latest connection has ended, or was not to be had. There is no other until Redial.
  std::vector<std::string> Broken();
  // Closes sockets that others have taken the place of, as soon as that can be. Every 50 ms or so
  // while there are some.
  void TendRetired(SteadyTime now) { retired_.Tend(now); }
  bool has_retired() const { return !retired_.empty(); }
  // By the latest connection of that name, `ours` or the ROUTER's.
  MovedBytes MovedOn(const std::string& id, bool ours);
  std::optional<wire::Address> PeerOf(const std::string& id) const;

  // Errors as ZmqSocket::Send. `bytes`: what the message takes, with ZMTP's part.
  absl::Status SendTo(Connection* connection, std::string_view header,
                      absl::Span<const Buffer> payload);
  absl::Status Answer(const std::string& routing_id, std::string_view header,
                      absl::Span<const Buffer> payload);

  // The next message; sockets take turns, one message each, so that a busy one does not starve the
  // rest. `frames` without the routing id. False: none.
  struct Source {
    std::string routing_id;
    bool answered = false;                // it came to the ROUTER
    int fd = -1;                          // of the connection, unless libzmq does not say
    wire::Role role = wire::Role::kNone;  // whose key was shown; kNone: without keys
    size_t socket = 0;
  };
  bool Receive(size_t frames_max, Buffers* frames, Source* from);
  // What came was valid, and of our session (on a connection to the ROUTER). Bytes of a handshake
  // that are now known to have been sent; else 0.
  uint64_t Watch(const Source& from);
  // A connection to the ROUTER began, by who has shown before that it knows our session.
  void Knocked(const Source& from);
  // Who was heard so is of the job, though not yet of its session. Nothing: that connection ended.
  void ProveHeard(const std::string& routing_id);
  // Connections to the ROUTER over tcp by which something came, and that have ended since the last
  // call, by their routing ids; of very many the last. One may have been made again meanwhile. Also
  // that of what Receive gave last, where it came by one that had ended.
  std::vector<std::string> TakeEnded();
  // Connections to the ROUTER that were held back or ended before something of our session came.
  // Or, with keys, were refused for theirs.
  uint64_t strangers() const {
    const HandshakeFailures failures = handshakes();
    return strangers_ + (door_ != nullptr ? door_->strangers() : 0) + failures.keys +
           failures.roles;
  }
  // Of who connected to the ROUTER. Of a path of a file system those for their key alone.
  HandshakeFailures handshakes() const;

  void AddPollItems(std::vector<zmq_pollitem_t>* items);

  // What is unsent stays queued for `linger`, which this waits for. Adds what the kernel counted.
  void Close(absl::Duration linger, SocketCounts* counts);

 private:
  void Terminate();
  void Retire(wire::Address peer);
  absl::StatusOr<ZmqSocket> Dial(wire::Role peer, const security::PublicKey& key,
                                 const std::string& id, const std::string& endpoint);
  void List();
  LinkWatch* AnsweredLink(const std::string& routing_id);
  uint64_t TakeGivenBefore(const std::string& routing_id);
  void CloseDoor();
  void CloseZap();
  void Prove(const Source& from);
  void Hear(const Source& from);
  void CollectEnded();
  size_t count() const { return listed_.size() + (router_.open() ? 1 : 0); }
  ZmqSocket& socket(size_t i);

  const ZmqSocketOptions options_;
  void* context_ = nullptr;
  ZmqSocket router_;
  std::map<wire::Address, Connection> connections_;
  RetiredSockets retired_;
  std::vector<Connection*> listed_;                   // values of connections_, in order
  std::unordered_map<std::string, LinkWatch> links_;  // of the ROUTER, by routing id
  // Answers (a Welcome) to those of whom nothing was watched yet, the newest ones: routing id and
  // bytes.
  std::deque<std::pair<std::string, uint64_t>> given_before_;
  const DoorLimits door_limits_;
  std::unique_ptr<DoorWatch> door_;              // of the ROUTER, over tcp
  std::unique_ptr<ZapHandler> zap_;              // with keys, where it listens
  std::unordered_map<std::string, int> proven_;  // the descriptor that was, by routing id
  std::unordered_map<int, std::string> heard_;   // routing ids by their descriptors, over tcp
  std::set<int> ended_unheard_;     // descriptors; what came by them may be there to be read
  std::vector<std::string> ended_;  // routing ids
  uint64_t strangers_ = 0;          // of the door, once it is closed
  HandshakeFailures handshakes_;    // of door and ZAP, once they are
  size_t next_ = 0;                 // whose turn it is in Receive
};

}  // namespace soapstone::transport
