#include "transport/tcp/tcp_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace soapstone::transport {
namespace {

// Nothing moves on a connection for this long: another way may be better than waiting on, as TCP
// itself tries again less and less often.
constexpr absl::Duration kStallMax = absl::Milliseconds(1500);

}  // namespace

bool TcpLink::IsLate(SteadyTime now, absl::Duration link_timeout) const {
  switch (state) {
    case State::kConnecting:
    case State::kGreeting:
    case State::kOffered:
    case State::kBroken:
      return now >= deadline || now - broken_since >= link_timeout;
    case State::kEnded:
      return true;
    default:
      return false;
  }
}

bool TcpLink::BeginConnection() {
  answer_have = 0;
  ++connection;
  fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  return fd >= 0 && (connect(fd, address.get(), address.size) == 0 || errno == EINPROGRESS);
}

int TcpLink::ConnectError() const {
  pollfd item = {.fd = fd, .events = POLLOUT, .revents = 0};
  if (poll(&item, 1, 0) <= 0) return EINPROGRESS;
  int error = 0;
  socklen_t size = sizeof(error);
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 ? errno : error;
}

bool TcpLink::SayHello() const {
  StreamHello hello = {.connection = connection, .greeting = channel->greeting()};
  seal.Prove(&hello, /*answer=*/false);
  return SendHello(fd, hello);
}

void TcpLink::Opened() {
  fd = -1;
  state = State::kOpen;
  deadline = broken_since = dial_at = pulse_at = SteadyTime::InfiniteFuture();
  dial_again = kDialAgainAfter;
}

void TcpLink::CloseDialled() {
  if (fd >= 0) close(std::exchange(fd, -1));
}

std::optional<SteadyTime> TcpLink::StalledSince(SteadyTime now) {
  const std::optional<StreamPulse> latest = PulseOf(channel->fd());
  if (!latest.has_value()) return std::nullopt;
  const bool moves = !pulse.awaits || latest->acknowledged != pulse.acknowledged;
  pulse = *latest;
  if (!pulse.awaits || moves || pulse_at == SteadyTime::InfiniteFuture()) {
    pulse_at = pulse.awaits ? now : SteadyTime::InfiniteFuture();
    return std::nullopt;
  }
  const absl::Duration silent = std::min(now - pulse_at, pulse.silent);
  if (silent < kStallMax) return std::nullopt;
  return now - silent;
}

std::string TcpLink::WhyNone(bool unanswered) {
  if (state == State::kAsked && unanswered) {
    return name + " makes none; set its cluster.transport to auto or sockets";
  }
  if (state != State::kNone) return "";
  if (!ours) return why_none;
  const uint16_t port = address.port();
  const std::string way_out = port == 0 ? "set one by --stream_port"
                                        : absl::StrCat("open port ", port, " of it to this node");
  return absl::StrCat(name, ", ", why_none, "; ", way_out);
}

}  // namespace soapstone::transport
