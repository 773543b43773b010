#include "transport/node/way_options.h"

#include <algorithm>
#include <cstdint>

#include "security/record_cipher.h"

namespace soapstone::transport {
namespace {

constexpr int kHandshakeMs = 10'000;
constexpr int kSecuredHandshakeMs = 3'000;  // two answers from memory

}  // namespace

ZmqSocketOptions SocketOptionsOf(const ZmqOptions& options) {
  return {.queue_messages_max = options.queue_messages_max,
          .frame_bytes_max = static_cast<int64_t>(std::max<uint64_t>(
              options.frame_limits.frame_bytes_max, options.frame_limits.header_bytes_max)),
          .handshake_ms = options.keys != nullptr ? kSecuredHandshakeMs : kHandshakeMs,
          .keys = options.keys};
}

NumberedOptions NumberedOptionsOf(const ZmqOptions& options) {
  return {.limits = {.bytes_max = options.queue_bytes_max,
                     .items_max = static_cast<uint64_t>(options.queue_messages_max)},
          .link_timeout = options.link_timeout,
          .links_max = options.route_limits.routes_max};
}

LocalOptions LocalOptionsOf(const ZmqOptions& options) {
  return {.link_timeout = options.link_timeout,
          .unread_bytes_max = options.queue_bytes_max,
          .keys = options.keys};
}

StreamOptions StreamOptionsOf(const ZmqOptions& options) {
  return {.port = options.stream_port,
          .link_timeout = options.link_timeout,
          .ciphers = options.keys != nullptr ? security::CiphersHere() : uint8_t{0},
          .limits = {.queue_messages_max = options.queue_messages_max,
                     .queue_bytes_max = options.queue_bytes_max,
                     .unsent_bytes_max = options.stream_unsent_bytes_max,
                     .adapts = options.stream_window,
                     .frame = options.frame_limits}};
}

}  // namespace soapstone::transport
