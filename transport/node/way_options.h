// What each of the three ways of a node's transport (ZeroMQ, shared memory, streams) has of its
// options. Included by transport/*.cc only.
#pragma once

#include "transport/node/node_transport.h"
#include "transport/node/numbered_links.h"
#include "transport/shm/shm_links.h"
#include "transport/tcp/tcp_links.h"
#include "transport/zmq/zmq_socket.h"

namespace soapstone::transport {

ZmqSocketOptions SocketOptionsOf(const ZmqOptions& options);
NumberedOptions NumberedOptionsOf(const ZmqOptions& options);
LocalOptions LocalOptionsOf(const ZmqOptions& options);
StreamOptions StreamOptionsOf(const ZmqOptions& options);

}  // namespace soapstone::transport
