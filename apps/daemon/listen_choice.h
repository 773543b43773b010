// ListenChoice: where a server listens, and what it tells its peers, so that they reach it.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace soapstone::apps {

struct ListenChoice {
  std::string listen;          // as ZmqOptions::listen
  std::string advertise_host;  // as ZmqOptions::advertise_host
};

// `bind`: the flag; empty: chosen from where the scheduler is:
//   tcp on this machine    a free port on the loopback interface
//   tcp elsewhere          a free port on all interfaces, told as the address that has the route
//   ipc                    a path beside the scheduler's, with `tag` in it
// Errors: InvalidArgument: it can never work; Unavailable: the scheduler's name does not resolve,
// or there is no route to it. Names of a cluster take seconds until they are there.
absl::StatusOr<ListenChoice> ChooseListen(const std::string& bind, const std::string& scheduler,
                                          const std::string& tag);

// The IPv4 address of this machine from which packets to host:port leave; nothing is sent. Error:
// Unavailable, `host` does not resolve, or there is no route to it.
absl::StatusOr<std::string> AddressTowards(const std::string& host, const std::string& port);

// As ChooseListen, again each half second while it is Unavailable, for `patience`; logs that it
// waits. `waits` is called each time.
absl::StatusOr<ListenChoice> AwaitListen(const std::string& bind, const std::string& scheduler,
                                         const std::string& tag, absl::Duration patience,
                                         const std::function<void()>& waits);

}  // namespace soapstone::apps
