// A message as the frames of one multipart send: frame 0 is a fixed prefix and a protobuf header,
// each further frame is one payload buffer, raw. Called by transports. docs/wire.md has the tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/memory/buffer.h"
#include "wire/message.h"

namespace soapstone::wire {

// The prefix of frame 0, little-endian:
//   [0, 4) magic  [4, 6) version  [6, 8) flags, 0  [8, 12) header bytes  [12, 16) crc32 of them
inline constexpr uint32_t kFrameMagic = 0x50414F53;  // "SOAP"
inline constexpr uint16_t kFrameVersion = 2;
inline constexpr size_t kFramePrefixBytes = 16;

// What a receiver takes at most. A sender checks the same, so that a message that nobody would
// take is an error where it is made.
struct FrameLimits {
  size_t header_bytes_max = size_t{8} << 20;
  size_t payload_frames_max = 65'536;
  uint64_t frame_bytes_max = uint64_t{1} << 30;
  uint64_t message_bytes_max = uint64_t{4} << 30;  // of all payload frames
  size_t string_bytes_max = 4096;
  size_t roster_entries_max = 100'000;  // of workers, and of servers
  size_t read_lags_max = 4096;
  size_t roster_shares_max = 16;
};

// A received message and the node that sent it: `message.from`, or the server that hosts the
// shard `message.from`. Replies to the node travel by the route on which it was received.
struct Received {
  Message message;
  Address sender;
};

// Frame 0 of `message`. The payload buffers are the frames that follow.
std::string EncodeHeader(const Message& message, Address sender);

// The message of these frames. Its payload shares the frames' bytes. Any bytes may be given: what
// does not pass every check is InvalidArgument, with the reason; nothing is allocated from a
// length that was not compared with the bytes present.
absl::StatusOr<Received> Decode(absl::Span<const Buffer> frames, const FrameLimits& limits = {});

// Whether the fields are in range, the body is the one of the type, and the sizes are within the
// limits: what a receiver may rely on. InvalidArgument, with the reason, where not.
absl::Status Validate(const Message& message, const FrameLimits& limits = {});

// Whether messages of such a type exist.
bool IsKnown(MessageType type);

// Whether `sender` can have sent a message from `from`.
absl::Status ValidateSender(Address from, Address sender);

}  // namespace soapstone::wire
