// StreamCounts: what a node's streams have taken of the network beside their messages, and what the
// kernel says of their connections. TcpLinks adds up; the node's transport reports.
#pragma once

#include <cstdint>

#include "transport/byte_counts.h"
#include "transport/tcp/stream_channel.h"

namespace soapstone::transport {

// A value.
struct StreamCounts {
  int64_t framing_sent = 0;      // hellos, and heads of further chunks
  int64_t framing_received = 0;  // heads of further chunks
  uint64_t dropped_messages = 0;
  SocketCounts sockets;  // of connections that have ended
  ProofFaults faults;

  // The channel's connection ends. `given_bytes`: of the channel's, to it.
  void AddConnection(const StreamChannel& channel, uint64_t given_bytes);
  void AddFraming(const StreamChannel& channel);
};

}  // namespace soapstone::transport
