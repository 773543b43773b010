#include "apps/daemon/listen_choice.h"

#include <arpa/inet.h>
#include <glog/logging.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/steady_clock.h"

namespace soapstone::apps {
namespace {

constexpr absl::Duration kLookAgain = absl::Milliseconds(500);
constexpr absl::Duration kSayEvery = absl::Seconds(5);

}  // namespace

absl::StatusOr<std::string> AddressTowards(const std::string& host, const std::string& port) {
  const addrinfo hints{.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM};
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) {
    return absl::UnavailableError(absl::StrCat("the name ", host, " does not resolve"));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in local{};
  socklen_t size = sizeof(local);
  const bool known = fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size) == 0;
  if (fd >= 0) close(fd);
  char text[INET_ADDRSTRLEN] = "";
  if (!known || inet_ntop(AF_INET, &local.sin_addr, text, sizeof(text)) == nullptr) {
    return absl::UnavailableError(absl::StrCat("no route to ", host));
  }
  return std::string(text);
}

absl::StatusOr<ListenChoice> ChooseListen(const std::string& bind, const std::string& scheduler,
                                          const std::string& tag) {
  if (!bind.empty() && !absl::StartsWith(bind, "tcp://*")) return ListenChoice{.listen = bind};
  if (absl::StartsWith(scheduler, "ipc://")) {  // all processes are on this machine
    if (!bind.empty()) return ListenChoice{.listen = bind, .advertise_host = "127.0.0.1"};
    return ListenChoice{.listen = absl::StrCat(scheduler, ".", tag)};
  }
  constexpr size_t kPrefix = sizeof("tcp://") - 1;
  const size_t colon = scheduler.rfind(':');
  if (!absl::StartsWith(scheduler, "tcp://") || colon <= kPrefix || colon + 1 == scheduler.size()) {
    return absl::InvalidArgumentError(absl::StrCat("cluster.scheduler: \"", scheduler,
                                                   "\" is not tcp://HOST:PORT or ipc://PATH"));
  }
  const std::string host = scheduler.substr(kPrefix, colon - kPrefix);
  const std::string port = scheduler.substr(colon + 1);
  const absl::StatusOr<std::string> local = AddressTowards(host, port);
  if (!local.ok()) {
    return absl::UnavailableError(absl::StrCat("cluster.scheduler: ", local.status().message()));
  }
  if (!bind.empty()) return ListenChoice{.listen = bind, .advertise_host = *local};
  if (absl::StartsWith(*local, "127.")) return ListenChoice{.listen = "tcp://127.0.0.1:0"};
  return ListenChoice{.listen = "tcp://*:0", .advertise_host = *local};
}

absl::StatusOr<ListenChoice> AwaitListen(const std::string& bind, const std::string& scheduler,
                                         const std::string& tag, absl::Duration patience,
                                         const std::function<void()>& waits) {
  const SteadyTime began = SteadyNow();
  SteadyTime say_at = began;
  for (;;) {
    absl::StatusOr<ListenChoice> choice = ChooseListen(bind, scheduler, tag);
    const SteadyTime now = SteadyNow();
    if (choice.ok() || !absl::IsUnavailable(choice.status())) return choice;
    if (now - began >= patience) {
      return absl::UnavailableError(absl::StrCat(choice.status().message(), ", tried for ",
                                                 absl::ToInt64Seconds(now - began), " s"));
    }
    if (now >= say_at) {
      LOG(WARNING) << choice.status().message() << " yet; trying again";
      say_at = now + kSayEvery;
    }
    waits();
    absl::SleepFor(std::min(kLookAgain, patience - (now - began)));
  }
}

}  // namespace soapstone::apps
