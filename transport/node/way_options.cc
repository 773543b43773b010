#include "transport/node/way_options.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "security/record_cipher.h"

namespace soapstone::transport {
namespace {

constexpr int kHandshakeMs = 10'000;
constexpr int kSecuredHandshakeMs = 3'000;  // two answers from memory

// What libzmq takes. A length that was changed on the way is believed up to here, and so much
// waited for: no more than the job's largest frame, with what encryption adds.
int64_t ZmqFrameBytesMax(const ZmqOptions& options) {
  const uint64_t largest = std::max<uint64_t>(options.frame_limits.frame_bytes_max,
                                              options.frame_limits.header_bytes_max);
  const uint64_t secured = std::min(largest, kSecuredFrameBytesMax) + kSealedFrameExtraBytes;
  return static_cast<int64_t>(options.keys != nullptr ? secured : largest);
}

}  // namespace

ZmqSocketOptions SocketOptionsOf(const ZmqOptions& options) {
  return {.queue_messages_max = options.queue_messages_max,
          .frame_bytes_max = ZmqFrameBytesMax(options),
          .handshake_ms = options.keys != nullptr ? kSecuredHandshakeMs : kHandshakeMs,
          .keys = options.keys};
}

NumberedOptions NumberedOptionsOf(const ZmqOptions& options,
                                  std::function<bool(const std::string&)> waits) {
  return {.limits = {.bytes_max = options.queue_bytes_max,
                     .items_max = static_cast<uint64_t>(options.queue_messages_max)},
          .link_timeout = options.link_timeout,
          .links_max = options.route_limits.routes_max,
          .waits = std::move(waits)};
}

LocalOptions LocalOptionsOf(const ZmqOptions& options,
                            std::function<bool(const security::PublicKey&)> admits) {
  return {.link_timeout = options.link_timeout,
          .unread_bytes_max = options.queue_bytes_max,
          .keys = options.keys,
          .admits = std::move(admits)};
}

StreamOptions StreamOptionsOf(const ZmqOptions& options) {
  return {.port = options.stream_port,
          .half_open_patience = options.stream_patience,
          .link_timeout = options.link_timeout,
          .ciphers = options.keys != nullptr ? security::CiphersHere() : uint8_t{0},
          .limits = {.queue_messages_max = options.queue_messages_max,
                     .queue_bytes_max = options.queue_bytes_max,
                     .unsent_bytes_max = options.stream_unsent_bytes_max,
                     .adapts = options.stream_window,
                     .frame = options.frame_limits}};
}

}  // namespace soapstone::transport
