#include "transport/tcp/stream_port.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
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
  ready_ = epoll_create1(EPOLL_CLOEXEC);
  if (ready_ < 0) {
    close(fd);
    return absl::ResourceExhaustedError("no epoll");
  }
  listener_ = fd;
  port_ = address->port();
  Listen(true);
  return absl::OkStatus();
}

void StreamPort::Listen(bool on) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = listener_;
  PCHECK(epoll_ctl(ready_, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, listener_, &event) == 0);
}

// Who has our token speaks at once; who says nothing makes room for the next.
void StreamPort::Accept() {
  for (size_t taken = 0; taken < kPendingMax; ++taken) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if (errno == EMFILE || errno == ENFILE) {
        LOG_EVERY_N(WARNING, 100) << "too many open files: no more streams";
        deaf_until_ = SteadyNow() + kDeafAfter;
        Listen(false);
      }
      return;
    }
    if (pending_.size() >= kPendingMax) SendAway(pending_.begin());
    epoll_event event = {};
    event.events = EPOLLIN | EPOLLRDHUP;
    event.data.fd = fd;
    if (epoll_ctl(ready_, EPOLL_CTL_ADD, fd, &event) != 0) {
      close(fd);
      continue;
    }
    pending_.push_back({.fd = fd, .deadline = SteadyNow() + patience_});
  }
}

void StreamPort::SendAway(Pending::iterator connection) {
  close(connection->fd);
  pending_.erase(connection);
  ++silent_;
}

void StreamPort::Read(int fd, const OnHello& on_hello) {
  const auto connection = std::find_if(pending_.begin(), pending_.end(),
                                       [fd](const PendingConnection& p) { return p.fd == fd; });
  if (connection == pending_.end()) return;  // it made room
  const bool there = ReadHello(fd, connection->hello, &connection->have);
  if (connection->have == kStreamHelloBytes) {
    const std::optional<StreamHello> hello = DecodeStreamHello(connection->hello);
    pending_.erase(connection);
    epoll_ctl(ready_, EPOLL_CTL_DEL, fd, nullptr);
    on_hello(fd, hello);
  } else if (!there) {
    SendAway(connection);
  }
}

// Who comes later may get a descriptor that is among the events, so nobody is accepted here:
// whether somebody is to be.
bool StreamPort::ReadReady(const OnHello& on_hello) {
  epoll_event events[kPendingMax + 1];
  const int count = epoll_wait(ready_, events, std::size(events), 0);
  bool connects = false;
  for (int i = 0; i < count; ++i) {
    connects = connects || events[i].data.fd == listener_;
    if (events[i].data.fd != listener_) Read(events[i].data.fd, on_hello);
  }
  return connects;
}

void StreamPort::Progress(const OnHello& on_hello) {
  if (listener_ < 0) return;
  const SteadyTime now = SteadyNow();
  if (deaf_until_.has_value() && now >= *deaf_until_) {
    deaf_until_.reset();
    Listen(true);
  }
  if (ReadReady(on_hello)) {
    Accept();
    ReadReady(on_hello);
  }
  while (!pending_.empty() && now >= pending_.front().deadline) SendAway(pending_.begin());
}

void StreamPort::AddPollItems(std::vector<pollfd>* items) const {
  if (ready_ >= 0) items->push_back({.fd = ready_, .events = POLLIN, .revents = 0});
}

void StreamPort::Close() {
  for (const PendingConnection& connection : pending_) close(connection.fd);
  pending_.clear();
  if (listener_ >= 0) close(std::exchange(listener_, -1));
  if (ready_ >= 0) close(std::exchange(ready_, -1));
}

}  // namespace soapstone::transport
