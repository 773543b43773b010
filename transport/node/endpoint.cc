#include "transport/node/endpoint.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace soapstone::transport {
namespace {

constexpr char kTcp[] = "tcp://";
constexpr char kIpc[] = "ipc://";

struct HostPort {
  std::string host;
  std::string port;
};

// REQUIRES: starts with tcp://. Without a port, the port is empty.
HostPort SplitTcp(const std::string& endpoint) {
  const std::string rest = endpoint.substr(std::strlen(kTcp));
  const size_t colon = rest.rfind(':');
  if (colon == std::string::npos) return {rest, ""};
  return {rest.substr(0, colon), rest.substr(colon + 1)};
}

bool IsHostPort(const HostPort& at) {
  int port = 0;
  const bool bracketed = absl::StartsWith(at.host, "[") && absl::EndsWith(at.host, "]");
  return !at.host.empty() && (bracketed || at.host.find(':') == std::string::npos) &&
         absl::SimpleAtoi(at.port, &port) && port >= 0 && port <= 65535;
}

bool IsAnyHost(const std::string& host) {
  return host == "*" || host == "0.0.0.0" || host == "[::]";
}

std::optional<std::string> ResolveIPv4(const std::string& host) {
  addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return std::nullopt;
  std::optional<std::string> address;
  char text[INET_ADDRSTRLEN];
  const auto* first = reinterpret_cast<const sockaddr_in*>(found->ai_addr);
  if (inet_ntop(AF_INET, &first->sin_addr, text, sizeof(text)) != nullptr) address = text;
  freeaddrinfo(found);
  return address;
}

std::string NameOfThisMachine() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0 || !ResolveIPv4(name)) return "127.0.0.1";
  return name;
}

bool SomeoneListens(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const bool listens =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return listens;
}

}  // namespace

bool IsTcp(std::string_view endpoint) { return endpoint.substr(0, std::strlen(kTcp)) == kTcp; }

absl::Status CheckEndpoint(const std::string& endpoint) {
  if (absl::StartsWith(endpoint, kIpc) && endpoint.size() > std::strlen(kIpc)) {
    return absl::OkStatus();
  }
  if (IsTcp(endpoint) && IsHostPort(SplitTcp(endpoint))) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "'", endpoint, "' is not an endpoint: write tcp://HOST:PORT (port 0: any) or ipc://PATH"));
}

absl::StatusOr<std::string> BindAddress(const std::string& endpoint) {
  SOAP_RETURN_IF_ERROR(CheckEndpoint(endpoint));
  if (absl::StartsWith(endpoint, kIpc)) {
    if (SomeoneListens(endpoint.substr(std::strlen(kIpc)))) {
      return absl::AlreadyExistsError(
          absl::StrCat("address in use: ", endpoint,
                       ": another process listens there; stop it or choose another path"));
    }
    return endpoint;
  }
  const HostPort at = SplitTcp(endpoint);
  if (IsAnyHost(at.host) || absl::StartsWith(at.host, "[")) return endpoint;
  // What does not resolve may be the name of an interface: libzmq decides.
  return absl::StrCat(kTcp, ResolveIPv4(at.host).value_or(at.host), ":", at.port);
}

std::string ConnectAddress(const std::string& endpoint, const std::string& bound,
                           const std::string& advertise_host) {
  if (!IsTcp(endpoint)) return bound;
  const HostPort asked = SplitTcp(endpoint);
  const HostPort given = SplitTcp(bound);
  std::string host = advertise_host;
  if (host.empty() && IsAnyHost(asked.host)) host = NameOfThisMachine();
  if (host.empty()) host = ResolveIPv4(asked.host) ? asked.host : given.host;
  return absl::StrCat(kTcp, host, ":", given.port);
}

std::vector<std::string> EndpointsOf(const std::string& endpoint) {
  std::vector<std::string> endpoints;
  if (!IsTcp(endpoint)) return {endpoint};
  const HostPort at = SplitTcp(endpoint);
  const addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (getaddrinfo(at.host.c_str(), nullptr, &hints, &found) != 0) return {};
  char text[INET_ADDRSTRLEN];
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    const auto* address = reinterpret_cast<const sockaddr_in*>(each->ai_addr);
    if (inet_ntop(AF_INET, &address->sin_addr, text, sizeof(text)) == nullptr) continue;
    endpoints.push_back(absl::StrCat(kTcp, text, ":", at.port));
  }
  freeaddrinfo(found);
  return endpoints.size() > 1 ? endpoints : std::vector<std::string>{endpoint};
}

SocketFile SocketFileOf(const std::string& address) {
  if (!absl::StartsWith(address, kIpc)) return {};
  struct stat there = {};
  const std::string path = address.substr(std::strlen(kIpc));
  if (lstat(path.c_str(), &there) != 0 || !S_ISSOCK(there.st_mode)) return {};
  return {.path = path, .device = there.st_dev, .inode = there.st_ino};
}

void RemoveSocketFile(const SocketFile& file) {
  if (file.path.empty()) return;
  const SocketFile now = SocketFileOf(absl::StrCat(kIpc, file.path));
  if (now.device == file.device && now.inode == file.inode) unlink(file.path.c_str());
}

}  // namespace soapstone::transport
