// Endpoints as text: what a socket is asked to bind, and what peers are told to connect to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace soapstone::transport {

// OK for "tcp://HOST:PORT" and "ipc://PATH"; else InvalidArgument.
absl::Status CheckEndpoint(const std::string& endpoint);

bool IsTcp(std::string_view endpoint);

// What to bind for `endpoint`: a host name becomes its IPv4 address, as libzmq binds addresses and
// interfaces only. AlreadyExists where a process listens on an ipc path: libzmq would take the
// path away from it without a word.
absl::StatusOr<std::string> BindAddress(const std::string& endpoint);

// What peers connect to, after `endpoint` was bound as `bound` (with the port the system chose).
// The host is `advertise_host` where given, else the one in `endpoint`; where that means "all
// interfaces", this machine's name, or 127.0.0.1 when the name does not resolve.
std::string ConnectAddress(const std::string& endpoint, const std::string& bound,
                           const std::string& advertise_host);

// `endpoint` by each of the IPv4 addresses that its name has now, in their order; one: as it is,
// for libzmq asks anew by each attempt. It takes the first alone. None: the name does not resolve.
// Waits for the resolver.
std::vector<std::string> EndpointsOf(const std::string& endpoint);

// The file that a socket bound to an ipc path has made; libzmq leaves it there.
struct SocketFile {
  std::string path;  // empty: none
  uint64_t device = 0, inode = 0;
};
// Of what was bound to `address` just now.
SocketFile SocketFileOf(const std::string& address);
// Unless another file has taken its place meanwhile.
void RemoveSocketFile(const SocketFile& file);

}  // namespace soapstone::transport
