// The sockets of streams (transport/tcp/tcp_links.h): addresses, the hellos that are read and
// written on them, what the kernel says of a connection. Included by transport/*.cc only.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/time/time.h"
#include "transport/tcp/handshake.h"

namespace soapstone::transport {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  bool SetPort(uint16_t port);
  uint16_t port();
};

// Of "tcp://1.2.3.4:5" or "tcp://[::1]:5".
std::optional<SocketAddress> AddressOf(std::string_view endpoint);

// Of a connection that carries data: no delay, keepalive as ZeroMQ's connections.
void SetUpStream(int fd);

// False: the kernel did not take it, which it does at once of so little.
bool SendHello(int fd, const StreamHello& hello);
// Reads what is missing of a hello and nothing behind it. False: the other side has ended.
bool ReadHello(int fd, char* hello, size_t* have);

// All bytes that were written have reached the other kernel, or nothing will any more.
bool IsTakenOver(int fd);

// What is known of a connection's way: bytes are on it that nobody answers for.
struct StreamPulse {
  bool awaits = false;        // something was sent and is not acknowledged by the other kernel
  uint64_t acknowledged = 0;  // bytes
  absl::Duration silent;      // since the other kernel was heard
};
std::optional<StreamPulse> PulseOf(int fd);

}  // namespace soapstone::transport
