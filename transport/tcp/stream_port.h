// StreamPort: the TCP port at which a node is connected to for streams, and the connections there
// whose hello has not come yet. Who calls: TcpLinks, which knows whose token is whose.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/steady_clock.h"
#include "transport/tcp/handshake.h"

namespace soapstone::transport {

// Invariants
//  1. Who has not said its hello holds nothing but a descriptor, and for `patience` at most; there
//     are at most kPendingMax of them, and the oldest goes for the next.
//  2. It never waits; where descriptors are short it takes nobody for a while.
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
  void AddPollItems(std::vector<pollfd>* items) const;

  void Close();

 private:
  struct PendingConnection {
    int fd = -1;
    SteadyTime deadline;
    char hello[kStreamHelloBytes] = {};
    size_t have = 0;
  };
  void Accept();

  const absl::Duration patience_;
  int listener_ = -1;
  uint16_t port_ = 0;
  SteadyTime deaf_until_ = SteadyTime::InfinitePast();
  std::vector<PendingConnection> pending_;  // oldest first
};

}  // namespace soapstone::transport
