// Transport over ZeroMQ: one ROUTER socket to listen (if asked to), and one DEALER for each node
// connected to. Used by the mains of all roles; no libzmq type shows here.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "transport/route_table.h"
#include "transport/transport.h"
#include "wire/frame.h"

namespace soapstone::transport {

struct ZmqOptions {
  // "tcp://HOST:PORT" (port 0: the system chooses; host *: all interfaces) or "ipc://PATH". Empty:
  // does not listen; peers answer on the connections that this node makes.
  std::string listen;
  // Messages to nodes of the same machine that want it too go through shared memory, not through
  // the endpoint (transport/local_links.h). Turns base/shared_arena.h on.
  bool shared_memory = false;
  std::string advertise_host;       // in endpoint(), in the place of the host in `listen`
  int queue_messages_max = 10'000;  // per peer and direction; beyond, Send is an error
  wire::FrameLimits frame_limits;
  RouteLimits route_limits;
};

// A transport with its own I/O thread. It may be made by one thread and used by another. Wake may
// be called in a signal handler.
//
// A Send first looks for a connection to the node (Connect), then for the route on which the node
// was last heard.
//
// Errors: AlreadyExists (address in use), InvalidArgument (no such address), PermissionDenied,
// ResourceExhausted (too many open files).
absl::StatusOr<std::unique_ptr<Transport>> MakeZmqTransport(const ZmqOptions& options);

}  // namespace soapstone::transport
