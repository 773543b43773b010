// Transport over ZeroMQ: one ROUTER socket to listen (if asked to), and one DEALER for each node
// connected to. Used by the mains of all roles; no libzmq type shows here.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "security/process_keys.h"
#include "transport/route_table.h"
#include "transport/transport.h"
#include "transport/zmq/door.h"
#include "wire/frame.h"
#include "wire/shard_places.h"

namespace soapstone::transport {

// In a job with keys the largest frame that goes over ZeroMQ, and the largest that libzmq takes,
// with what encryption adds: of who connects it takes in as much before it knows who that is.
// Larger ones go by streams and links.
inline constexpr uint64_t kSealedFrameExtraBytes = 256;
inline constexpr uint64_t kSecuredFrameBytesMax = (uint64_t{8} << 20) - kSealedFrameExtraBytes;

struct ZmqOptions {
  // "tcp://HOST:PORT" (port 0: the system chooses; host *: all interfaces) or "ipc://PATH". Empty:
  // does not listen; peers answer on the connections that this node makes.
  std::string listen;
  // Messages to nodes of the same machine that want it too go through shared memory, not through
  // the endpoint (transport/shm/shm_links.h). Turns base/memory/shared_arena.h on.
  bool shared_memory = false;
  // Data for nodes of other machines (or of this one, without shared_memory) goes by TCP
  // connections of our own where they can be made (transport/tcp/tcp_links.h), else over ZeroMQ.
  bool streams = false;
  uint16_t stream_port = 0;  // where a node that listens is connected to for them; 0: any
  // Of a stream, in the kernel and not sent yet: an urgent message waits for as much, or for less
  // where the window adapts to the rate of the link (transport/tcp/send_window.h).
  uint32_t stream_unsent_bytes_max = 512 << 10;
  bool stream_window = true;
  // For a stream to come about, and for who connects for one to say what it is.
  absl::Duration stream_patience = absl::Seconds(10);
  std::string advertise_host;       // in endpoint(), in the place of the host in `listen`
  int queue_messages_max = 10'000;  // per peer and direction; beyond, Send is an error
  uint64_t queue_bytes_max = uint64_t{512} << 20;  // the same; or one message
  // A connection that cannot be made again for so long is lost (Transport::TakeLost).
  absl::Duration link_timeout = absl::Seconds(5);
  wire::FrameLimits frame_limits;
  RouteLimits route_limits;
  DoorLimits door;  // for who connects and has not proved to be of the job
  // Where set, the node speaks with those alone that have keys of the same job, each in the role of
  // its key and the rank that the roster gives its process (Transport::SetHolder); what leaves the
  // machine is encrypted.
  std::shared_ptr<const security::ProcessKeys> keys;
  wire::ShardPlaces places;  // with keys a server speaks for those alone that it may have
};

// A transport with its own I/O thread. It may be made by one thread and used by another. Wake may
// be called in a signal handler.
//
// A Send first looks for a connection to the node (Connect), then for the route on which the node
// was last heard.
//
// Errors: AlreadyExists (address in use), InvalidArgument (no such address), PermissionDenied,
// ResourceExhausted (too many open files).
absl::StatusOr<std::unique_ptr<Transport>> MakeNodeTransport(const ZmqOptions& options);

}  // namespace soapstone::transport
