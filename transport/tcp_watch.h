// Reads the kernel's byte counters of the TCP connections that libzmq makes and hides. A message
// tells the descriptor of the connection it came by; a duplicate of that keeps the counters
// readable after libzmq has closed its own. Included by transport/*.cc only.
//
// The duplicate also keeps the connection: the peer is told of the end only when both are closed.
// libzmq closes on its own when the peer is gone or breaks the protocol, and never a connection on
// which a valid message came for the latter, so nobody waits for it.
#pragma once

#include <cstdint>
#include <optional>

#include "transport/byte_counts.h"

namespace soapstone::transport {

// Of one connection.
struct MovedBytes {
  uint64_t out = 0;  // taken over by the other side's kernel
  uint64_t in = 0;   // by ours
};

// One TCP connection. Moves only.
class TcpWatch {
 public:
  // Empty: no TCP connection, no counters in this kernel, or descriptors get scarce (half of the
  // process' limit is in use).
  static std::optional<TcpWatch> Of(int fd);

  TcpWatch(TcpWatch&& other) noexcept;
  TcpWatch& operator=(TcpWatch&& other) noexcept;
  ~TcpWatch();

  // Neither end has closed it, and it was not reset.
  bool stands() const;
  // What has crossed it so far.
  MovedBytes moved() const;
  // Bytes taken and sent again; the rest is left as it is.
  void AddTo(SocketCounts* counts) const;

 private:
  explicit TcpWatch(int fd) : fd_(fd) {}
  int fd_;
};

// One peer's connections, one after the other, and what was given to libzmq for them. A connection
// made anew that happens to get its predecessor's descriptor is taken for it.
class LinkWatch {
 public:
  // `handshake_bytes`: what our end of each connection sends before messages.
  explicit LinkWatch(uint64_t handshake_bytes) : handshake_bytes_(handshake_bytes) {}

  void OnGiven(uint64_t bytes) { given_bytes_ += bytes; }
  // A message came by the connection of `fd`; negative: unknown. True when that is a new one, which
  // will be counted.
  bool OnReceived(int fd);
  int fd() const { return fd_; }  // of the latest connection; negative: none
  // The latest connection is known to have ended.
  bool broken() const { return fd_ >= 0 && watch_.has_value() && !watch_->stands(); }
  // Another connection is made, which may get the latest one's descriptor.
  void Renew() { fd_ = -1; }
  // Of the latest connection that something came by; zero where it is not watched.
  MovedBytes moved() const { return watch_.has_value() ? watch_->moved() : MovedBytes{}; }
  // All zero when nothing was received, or a connection could not be watched.
  SocketCounts Counts() const;

 private:
  uint64_t handshake_bytes_;
  uint64_t given_bytes_ = 0;
  int fd_ = -1;
  std::optional<TcpWatch> watch_;
  SocketCounts before_;  // connections before that of watch_
  bool unwatched_ = false;
};

}  // namespace soapstone::transport
