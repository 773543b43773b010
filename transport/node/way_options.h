// What each of the three ways of a node's transport (ZeroMQ, shared memory, streams) has of its
// options. Included by transport/*.cc only.
#pragma once

#include <functional>
#include <string>

#include "transport/node/node_transport.h"
#include "transport/node/numbered_links.h"
#include "transport/shm/shm_links.h"
#include "transport/tcp/tcp_links.h"
#include "transport/zmq/zmq_socket.h"

namespace soapstone::transport {

// `waits`, `admits`: as NumberedOptions and LocalOptions have them.
ZmqSocketOptions SocketOptionsOf(const ZmqOptions& options);
NumberedOptions NumberedOptionsOf(const ZmqOptions& options,
                                  std::function<bool(const std::string&)> waits);
LocalOptions LocalOptionsOf(const ZmqOptions& options,
                            std::function<bool(const security::PublicKey&)> admits);
StreamOptions StreamOptionsOf(const ZmqOptions& options);

}  // namespace soapstone::transport
