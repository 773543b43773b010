#include "transport/tcp/stream_port.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "transport/tcp/stream_dial.h"

namespace soapstone::transport {
namespace {

constexpr absl::Duration kDeafAfter = absl::Seconds(1);  // without descriptors to accept somebody

}  // namespace

absl::Status StreamPort::Open(const std::string& endpoint, uint16_t port) {
  std::optional<SocketAddress> address = AddressOf(endpoint);
  if (!address.has_value() || !address->SetPort(port)) {
    return absl::InvalidArgumentError("ZeroMQ does not listen for tcp");
  }
  const int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return absl::ResourceExhaustedError("no socket");
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd, address->get(), address->size) != 0 || listen(fd, SOMAXCONN) != 0 ||
      getsockname(fd, address->get(), &address->size) != 0) {
    const int error = errno;
    close(fd);
    return absl::UnavailableError(absl::StrCat("port ", port, ": ", std::strerror(error)));
  }
  listener_ = fd;
  port_ = address->port();
  return absl::OkStatus();
}

// Who has our token speaks at once; who says nothing makes room for the next.
void StreamPort::Accept() {
  for (size_t taken = 0; taken < kPendingMax; ++taken) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if (errno == EMFILE || errno == ENFILE) {
        LOG_EVERY_N(WARNING, 100) << "too many open files: no more streams";
        deaf_until_ = SteadyNow() + kDeafAfter;
      }
      return;
    }
    if (pending_.size() >= kPendingMax) {
      close(pending_.front().fd);
      pending_.erase(pending_.begin());
    }
    pending_.push_back({.fd = fd, .deadline = SteadyNow() + patience_});
  }
}

void StreamPort::Progress(const OnHello& on_hello) {
  if (listener_ >= 0 && SteadyNow() >= deaf_until_) Accept();
  std::vector<PendingConnection> kept;
  for (PendingConnection& connection : pending_) {
    const bool there = ReadHello(connection.fd, connection.hello, &connection.have);
    if (connection.have == kStreamHelloBytes) {
      on_hello(connection.fd, DecodeStreamHello(connection.hello));
    } else if (there && SteadyNow() < connection.deadline) {
      kept.push_back(connection);
    } else {
      close(connection.fd);
    }
  }
  pending_ = std::move(kept);
}

void StreamPort::AddPollItems(std::vector<pollfd>* items) const {
  if (listener_ >= 0 && SteadyNow() >= deaf_until_) {
    items->push_back({.fd = listener_, .events = POLLIN, .revents = 0});
  }
  for (const PendingConnection& connection : pending_) {
    items->push_back({.fd = connection.fd, .events = POLLIN, .revents = 0});
  }
}

void StreamPort::Close() {
  for (const PendingConnection& connection : pending_) close(connection.fd);
  pending_.clear();
  if (listener_ >= 0) close(std::exchange(listener_, -1));
}

}  // namespace soapstone::transport
