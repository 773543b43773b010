#include "transport/byte_counts.h"

namespace soapstone::transport {
namespace {

bool IsData(wire::MessageType type) {
  using wire::MessageType;
  switch (type) {
    case MessageType::kPush:
    case MessageType::kClock:
    case MessageType::kPull:
    case MessageType::kPullReply:
    case MessageType::kParcel:
    case MessageType::kBlock:
    case MessageType::kLoaded:
      return true;
    default:
      return false;
  }
}

}  // namespace

void BytesByCause::Add(const BytesByCause& other) {
  push += other.push;
  pull += other.pull;
  parcels += other.parcels;
  blocks += other.blocks;
  model += other.model;
  header += other.header;
  control += other.control;
  framing += other.framing;
}

void BytesByCause::AddMessage(wire::MessageType type, uint64_t header_bytes,
                              uint64_t payload_bytes) {
  (IsData(type) ? header : control) += header_bytes;
  if (payload_bytes == 0) return;
  switch (type) {
    case wire::MessageType::kPullReply:
      pull += payload_bytes;
      break;
    case wire::MessageType::kParcel:
    case wire::MessageType::kState:
      parcels += payload_bytes;
      break;
    case wire::MessageType::kBlock:
      blocks += payload_bytes;
      break;
    case wire::MessageType::kSlices:
      model += payload_bytes;
      break;
    case wire::MessageType::kEvaluated:
      control += payload_bytes;
      break;
    default:
      push += payload_bytes;  // updates; and the keys that a pull of rows names, which go their way
  }
}

void SocketCounts::Add(const SocketCounts& other) {
  connections += other.connections;
  given_bytes += other.given_bytes;
  taken_bytes += other.taken_bytes;
  resent_bytes += other.resent_bytes;
}

void HandshakeFailures::Add(const HandshakeFailures& other) {
  keys += other.keys;
  roles += other.roles;
  mechanisms += other.mechanisms;
  cut_off += other.cut_off;
}

uint64_t ZmtpFramingOf(size_t header_bytes, absl::Span<const Buffer> payload) {
  uint64_t bytes = ZmtpFrameBytes(header_bytes);
  for (const Buffer& buffer : payload) bytes += ZmtpFrameBytes(buffer.size());
  return bytes;
}

}  // namespace soapstone::transport
