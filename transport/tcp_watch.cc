#include "transport/tcp_watch.h"

#include <fcntl.h>
#include <linux/bpf.h>  // the states of a connection
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <utility>

namespace soapstone::transport {
namespace {

// Empty where the kernel does not count bytes (before Linux 4.19).
std::optional<tcp_info> InfoOf(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  if (size < offsetof(tcp_info, tcpi_bytes_retrans) + sizeof(info.tcpi_bytes_retrans)) {
    return std::nullopt;
  }
  return info;
}

bool DescriptorsGetScarce(int fd) {
  rlimit limit = {};
  return getrlimit(RLIMIT_NOFILE, &limit) != 0 || static_cast<rlim_t>(fd) >= limit.rlim_cur / 2;
}

}  // namespace

std::optional<TcpWatch> TcpWatch::Of(int fd) {
  if (fd < 0 || DescriptorsGetScarce(fd)) return std::nullopt;
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return std::nullopt;
  TcpWatch watch(copy);
  if (!InfoOf(copy).has_value()) return std::nullopt;
  return watch;
}

TcpWatch::TcpWatch(TcpWatch&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

TcpWatch& TcpWatch::operator=(TcpWatch&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

TcpWatch::~TcpWatch() {
  if (fd_ >= 0) close(fd_);
}

bool TcpWatch::stands() const {
  const std::optional<tcp_info> info = InfoOf(fd_);
  return !info.has_value() || info->tcpi_state == BPF_TCP_ESTABLISHED;
}

MovedBytes TcpWatch::moved() const {
  const std::optional<tcp_info> info = InfoOf(fd_);
  if (!info.has_value()) return {};
  return {.out = info->tcpi_bytes_acked, .in = info->tcpi_bytes_received};
}

void TcpWatch::AddTo(SocketCounts* counts) const {
  const std::optional<tcp_info> info = InfoOf(fd_);
  if (!info.has_value()) return;
  // What is still in the send queue was taken too.
  counts->taken_bytes +=
      info->tcpi_bytes_sent - info->tcpi_bytes_retrans + info->tcpi_notsent_bytes;
  counts->resent_bytes += info->tcpi_bytes_retrans;
}

bool LinkWatch::OnReceived(int fd) {
  if (fd < 0 || fd == fd_) return false;
  fd_ = fd;
  if (watch_.has_value()) watch_->AddTo(&before_);
  watch_ = TcpWatch::Of(fd);
  if (!watch_.has_value()) {
    unwatched_ = true;
    return false;
  }
  ++before_.connections;
  return true;
}

SocketCounts LinkWatch::Counts() const {
  if (unwatched_ || !watch_.has_value()) return {};
  SocketCounts counts = before_;
  counts.given_bytes = given_bytes_ + counts.connections * handshake_bytes_;
  watch_->AddTo(&counts);
  return counts;
}

}  // namespace soapstone::transport
