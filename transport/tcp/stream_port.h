// StreamPort: the TCP port at which a node is connected to for streams, and the connections there
// whose hello has not come yet. Who calls: TcpLinks, which knows whose token is whose.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/steady_clock.h"
#include "transport/tcp/handshake.h"

namespace soapstone::transport {

// Invariants
//  1. Who has not said its hello holds nothing but a descriptor, and for `patience` at most; there
//     are at most kPendingMax of them, and the oldest goes for the next.
//  2. Who says nothing costs nothing while it does so: the system tells who has spoken.
//  3. It never waits; where descriptors are short it takes nobody for a while.
// One thread calls it.
class StreamPort {
 public:
  static constexpr size_t kPendingMax = 256;

  explicit StreamPort(absl::Duration patience) : patience_(patience) {}
  ~StreamPort() { Close(); }
  StreamPort(const StreamPort&) = delete;
  StreamPort& operator=(const StreamPort&) = delete;

  // Opens the port (0: the system chooses) on the interface of `endpoint` ("tcp://1.2.3.4:5").
  // Errors: InvalidArgument (not such an endpoint), Unavailable, ResourceExhausted.
  absl::Status Open(const std::string& endpoint, uint16_t port);
  bool open() const { return listener_ >= 0; }
  uint16_t port() const { return port_; }  // 0: it was never opened

  // A connection with its hello (empty: it is none); the descriptor is the callee's.
  using OnHello = std::function<void(int fd, const std::optional<StreamHello>& hello)>;
  // Takes who has connected, reads what they say, and sends away who was silent for too long.
  void Progress(const OnHello& on_hello);
  bool any_pending() const { return !pending_.empty(); }
  // Somebody came so lately that its hello is on its way.
  bool expects_hello(SteadyTime now) const {
    return !pending_.empty() && pending_.back().deadline - patience_ + kOnItsWay > now;
  }
  // When the oldest of those is sent away; far off where there is none.
  SteadyTime next_end() const {
    return pending_.empty() ? SteadyTime::InfiniteFuture() : pending_.front().deadline;
  }
  // One: readable when Progress has something to take.
  void AddPollItems(std::vector<pollfd>* items) const;
  // Since the last call: who was sent away for its silence, or ended before its hello was whole.
  uint64_t TakeSilent() { return std::exchange(silent_, 0); }

  void Close();

 private:
  struct PendingConnection {
    int fd = -1;
    SteadyTime deadline;
    char hello[kStreamHelloBytes] = {};
    size_t have = 0;
  };
  using Pending = std::vector<PendingConnection>;
  static constexpr absl::Duration kOnItsWay = absl::Milliseconds(20);

  void Listen(bool on);
  void Accept();
  bool ReadReady(const OnHello& on_hello);
  void Read(int fd, const OnHello& on_hello);
  void SendAway(Pending::iterator connection);

  const absl::Duration patience_;
  int listener_ = -1;
  int ready_ = -1;  // an epoll: of the listener, while it listens, and of those without a hello
  uint16_t port_ = 0;
  std::optional<SteadyTime> deaf_until_;
  Pending pending_;  // oldest first
  uint64_t silent_ = 0;
};

}  // namespace soapstone::transport
