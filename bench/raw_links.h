// Raw links between two processes: ZeroMQ (DEALER to ROUTER) over tcp and ipc, and TCP sockets.
// What a message costs before it means anything.
#pragma once

#include <cstdint>

#include "bench/processes.h"

namespace soapstone::bench {

enum class RawLink { kZmqTcp, kZmqIpc, kTcp };

// `messages` of `bytes` one way; the other end says when it has them all.
Sample RawPush(RawLink link, uint64_t bytes, uint64_t messages);

// Round trips of `bytes` there and back, one after another. ZeroMQ links only.
Sample RawRoundTrips(RawLink link, uint64_t bytes, uint64_t messages);

}  // namespace soapstone::bench
