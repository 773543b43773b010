// What the bytes that a node sends are for, and what the kernel counted of its connections. Values;
// transports fill them in, reports print them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "base/memory/buffer.h"
#include "wire/message.h"

namespace soapstone::transport {

struct BytesByCause {
  uint64_t push = 0;     // payload: updates, and keys of the rows that are asked for
  uint64_t pull = 0;     // payload: parameters that were asked for
  uint64_t parcels = 0;  // payload: between peers
  uint64_t blocks = 0;   // payload: between the workers of a team
  uint64_t model = 0;    // payload: parameters, gathered at the end of the job
  uint64_t header = 0;   // frame 0 of pushes, clocks, pulls, replies, parcels and blocks
  uint64_t control = 0;  // frame 0 of all other messages; payload: the confusion of a classifier
  uint64_t framing = 0;  // ZMTP's and streams'; none within a process
  uint64_t total() const {
    return push + pull + parcels + blocks + model + header + control + framing;
  }
  void Add(const BytesByCause& other);
  // One message; `header_bytes`: of frame 0.
  void AddMessage(wire::MessageType type, uint64_t header_bytes, uint64_t payload_bytes);
  friend bool operator==(const BytesByCause&, const BytesByCause&) = default;
};

// The kernel's account of TCP connections, beside ours. All of what was sent.
struct SocketCounts {
  uint64_t connections = 0;
  uint64_t given_bytes = 0;   // by us for them, and what ZMTP and streams add
  uint64_t taken_bytes = 0;   // by the kernel
  uint64_t resent_bytes = 0;  // TCP sent them again; not in taken_bytes
  void Add(const SocketCounts& other);
  friend bool operator==(const SocketCounts&, const SocketCounts&) = default;
};

// What was said by somebody who is not the other side of a stream or link, or changed on the way,
// by cause.
struct ProofFaults {
  uint64_t hellos = 0;   // without the token, or the proof of it
  uint64_t offers = 0;   // in clear, in a job with keys
  uint64_t records = 0;  // changed, repeated, left out
  uint64_t lengths = 0;  // of records, that none has
  uint64_t links = 0;    // through shared memory, without a proof of a key
  uint64_t names = 0;    // of nodes that other processes are, or without a proof of one's own
  friend bool operator==(const ProofFaults&, const ProofFaults&) = default;
};

// Handshakes of those who connected over ZeroMQ that came to nothing, by cause.
struct HandshakeFailures {
  uint64_t keys = 0;        // a key that is none of the job's, or encrypted for another one
  uint64_t roles = 0;       // of a role that has nothing to say here
  uint64_t mechanisms = 0;  // another mechanism than the job's, or none
  uint64_t cut_off = 0;     // ended in the middle, or by its deadline
  void Add(const HandshakeFailures& other);
  friend bool operator==(const HandshakeFailures&, const HandshakeFailures&) = default;
};

// ZMTP 3 (rfc.zeromq.org/spec/23): flags and length before each frame.
constexpr uint64_t ZmtpFrameBytes(size_t frame_bytes) { return frame_bytes <= 255 ? 2 : 9; }
uint64_t ZmtpFramingOf(size_t header_bytes, absl::Span<const Buffer> payload);
// What one end of a connection sends before its first message: a greeting, and the command READY
// with the properties Socket-Type ("DEALER", "ROUTER") and Identity.
constexpr uint64_t ZmtpHandshakeBytes(size_t routing_id_bytes) {
  constexpr uint64_t kGreeting = 64;
  constexpr uint64_t kCommand = 2 + 1 + 5;          // flags, length; "READY" after its length
  constexpr uint64_t kSocketType = 1 + 11 + 4 + 6;  // name and value after their lengths
  return kGreeting + kCommand + kSocketType + 1 + 8 + 4 + routing_id_bytes;
}

}  // namespace soapstone::transport
