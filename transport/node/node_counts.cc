#include "transport/node/node_counts.h"

#include "transport/node/numbered_links.h"

namespace soapstone::transport {

void NodeCounts::Sent(Way way, const wire::Message& message, std::string_view header) {
  ++stats_.sent_messages;
  stats_.sent.AddMessage(message.type, header.size(), message.payload_bytes());
  if (way == Way::kLink) stats_.shared_bytes += header.size() + message.payload_bytes();
  if (way == Way::kStream) {
    ++stats_.streamed_messages;
    stats_.sent.framing += StreamChannel::FramingOf(header.size(), message.payload);
  }
}

void NodeCounts::Received(Way way, const wire::Message& message, absl::Span<const Buffer> frames) {
  constexpr size_t kTrailer = NumberedLinks::kTrailerBytes;
  ++stats_.received_messages;
  stats_.received.AddMessage(message.type, frames[0].size(), message.payload_bytes());
  if (way == Way::kZmq) {
    stats_.received.framing +=
        ZmtpFramingOf(frames[0].size() + kTrailer, frames.subspan(1)) + kTrailer;
  } else if (way == Way::kStream) {
    stats_.received.framing += StreamChannel::FramingOf(frames[0].size(), frames.subspan(1));
  }
}

void NodeCounts::ReceivedNote(size_t bytes) {
  constexpr size_t kTrailer = NumberedLinks::kTrailerBytes;
  stats_.received.control += bytes;
  stats_.received.framing += ZmtpFramingOf(bytes + kTrailer, {}) + kTrailer;
}

TransportStats NodeCounts::With(const StreamCounts& streams) const {
  TransportStats stats = stats_;
  stats.sent.framing += static_cast<uint64_t>(streams.framing_sent);
  stats.received.framing += static_cast<uint64_t>(streams.framing_received);
  stats.dropped_messages += streams.dropped_messages;
  stats.sockets.Add(streams.sockets);
  stats.proof_faults = streams.faults;
  return stats;
}

}  // namespace soapstone::transport
