// NodeCounts: what a node has sent and received, message by message, with what each way of its
// transport adds to it. NodeTransport tells it of each; it must not know where messages go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/types/span.h"
#include "base/memory/buffer.h"
#include "transport/tcp/stream_counts.h"
#include "transport/transport.h"
#include "wire/message.h"

namespace soapstone::transport {

// By what a message goes.
enum class Way : uint8_t { kZmq, kLink, kStream };

class NodeCounts {
 public:
  // `header`: frame 0, as it is sent.
  void Sent(Way way, const wire::Message& message, std::string_view header);
  // `frames`: as they came, of a message that was accepted.
  void Received(Way way, const wire::Message& message, absl::Span<const Buffer> frames);
  void SentNote(size_t bytes) { stats_.sent.control += bytes; }
  void ReceivedNote(size_t bytes);
  void Dropped() { ++stats_.dropped_messages; }
  SocketCounts* sockets() { return &stats_.sockets; }

  // With what streams have counted.
  TransportStats With(const StreamCounts& streams) const;

 private:
  TransportStats stats_;
};

}  // namespace soapstone::transport
