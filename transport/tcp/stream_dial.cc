#include "transport/tcp/stream_dial.h"

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <string>

#include "transport/tcp/kernel_queue.h"

namespace soapstone::transport {
namespace {

constexpr uint8_t kTcpClosed = 7;  // TCP_CLOSE, which linux/tcp.h does not have
constexpr int kIdleS = 30, kIntervalS = 10, kProbes = 3;

}  // namespace

bool SocketAddress::SetPort(uint16_t port) {
  if (storage.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
    return true;
  }
  if (storage.ss_family != AF_INET6) return false;
  reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
  return true;
}

uint16_t SocketAddress::port() {
  return ntohs(storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
}

std::optional<SocketAddress> AddressOf(std::string_view endpoint) {
  constexpr std::string_view kTcp = "tcp://";
  if (endpoint.substr(0, kTcp.size()) != kTcp) return std::nullopt;
  endpoint.remove_prefix(kTcp.size());
  const size_t colon = endpoint.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string host(endpoint.substr(0, colon));
  SocketAddress address;
  if (host.size() > 2 && host.front() == '[') {
    host = host.substr(1, host.size() - 2);
    auto* in6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
    in6->sin6_family = AF_INET6;
    address.size = sizeof(*in6);
    if (inet_pton(AF_INET6, host.c_str(), &in6->sin6_addr) != 1) return std::nullopt;
    return address;
  }
  auto* in = reinterpret_cast<sockaddr_in*>(&address.storage);
  in->sin_family = AF_INET;
  address.size = sizeof(*in);
  if (inet_pton(AF_INET, host.c_str(), &in->sin_addr) != 1) return std::nullopt;
  return address;
}

void SetUpStream(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleS, sizeof(kIdleS));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kIntervalS, sizeof(kIntervalS));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof(kProbes));
  DontPaceWithinMachine(fd);
}

bool SendHello(int fd, const StreamHello& hello) {
  const std::string bytes = EncodeStreamHello(hello);
  return send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

bool ReadHello(int fd, char* hello, size_t* have) {
  const ssize_t got = recv(fd, hello + *have, kStreamHelloBytes - *have, MSG_DONTWAIT);
  if (got > 0) *have += static_cast<size_t>(got);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

bool IsTakenOver(int fd) {
  int left = 0;
  tcp_info info = {};
  socklen_t size = sizeof(info);
  return ioctl(fd, TIOCOUTQ, &left) != 0 || left == 0 ||
         getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_state == kTcpClosed;
}

std::optional<StreamPulse> PulseOf(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
      size < offsetof(tcp_info, tcpi_bytes_acked) + sizeof(info.tcpi_bytes_acked)) {
    return std::nullopt;
  }
  return StreamPulse{.awaits = info.tcpi_unacked > 0,
                     .acknowledged = info.tcpi_bytes_acked,
                     .silent = absl::Milliseconds(info.tcpi_last_ack_recv)};
}

}  // namespace soapstone::transport
