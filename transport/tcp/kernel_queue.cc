#include "transport/tcp/kernel_queue.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstring>

namespace soapstone::transport {
namespace {

constexpr Nanos kMicrosecond = 1000;
constexpr uint32_t kNoRoundTrip = ~uint32_t{0};
#ifdef SO_BUF_LOCK
constexpr int kBufferLock = SO_BUF_LOCK;
#else
constexpr int kBufferLock = 72;  // Linux 5.14; refused by older ones
#endif
constexpr int kSendBufferIsLocked = 1;  // SOCK_SNDBUF_LOCK
constexpr char kUnpaced[] = "reno";     // in every kernel, and anybody may choose it

// The kernel lets the buffer grow again. False: it cannot.
bool Unlock(int fd) {
  int locks = 0;
  socklen_t size = sizeof(locks);
  if (getsockopt(fd, SOL_SOCKET, kBufferLock, &locks, &size) != 0) return false;
  if ((locks & kSendBufferIsLocked) == 0) return true;
  locks &= ~kSendBufferIsLocked;
  return setsockopt(fd, SOL_SOCKET, kBufferLock, &locks, sizeof(locks)) == 0;
}

// Both ends have the same address, so no network is between them.
bool IsWithinMachine(int fd) {
  sockaddr_storage here = {}, there = {};
  socklen_t here_size = sizeof(here), there_size = sizeof(there);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_size) != 0 ||
      getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_size) != 0 ||
      here.ss_family != there.ss_family) {
    return false;
  }
  if (here.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(&here)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(&there)->sin_addr.s_addr;
  }
  return here.ss_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(&here)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(&there)->sin6_addr,
                     sizeof(in6_addr)) == 0;
}

}  // namespace

bool IsTcpConnection(int fd) {
  int protocol = 0;
  socklen_t size = sizeof(protocol);
  return getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == IPPROTO_TCP;
}

std::optional<uint64_t> OutstandingBytes(int fd) {
  int bytes = 0;
  if (ioctl(fd, TIOCOUTQ, &bytes) != 0 || bytes < 0) return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

TcpPath PathOf(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
      size < offsetof(tcp_info, tcpi_min_rtt) + sizeof(info.tcpi_min_rtt)) {
    return {};
  }
  const bool known = info.tcpi_min_rtt != kNoRoundTrip;
  return {.round_trip_min = known ? info.tcpi_min_rtt * kMicrosecond : 0,
          .segment_bytes = info.tcpi_snd_mss};
}

bool SetKernelQueue(int fd, const KernelQueueLimits& limits) {
  setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &limits.unsent_bytes, sizeof(limits.unsent_bytes));
  // Without the way back there is no bound at all.
  const bool unlocked = Unlock(fd);
  if (limits.outstanding_bytes == 0) return true;
  if (!unlocked) return false;
  // The kernel doubles what it is told, for its own bookkeeping, and says what came of it.
  const int half = static_cast<int>(limits.outstanding_bytes / 2);
  int got = 0;
  socklen_t size = sizeof(got);
  if (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &half, sizeof(half)) != 0 ||
      getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &got, &size) != 0 || got / 2 < half) {
    Unlock(fd);
    return false;
  }
  return true;
}

bool DontPaceWithinMachine(int fd) {
  return IsWithinMachine(fd) &&
         setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kUnpaced, sizeof(kUnpaced) - 1) == 0;
}

}  // namespace soapstone::transport
