// NetworkModel: when a message arrives. Each ordered pair of nodes is a link of its own with the
// same latency and bandwidth; a link carries one message at a time, in order:
//     departs = max(now, link free) + bytes / bandwidth,   arrives = departs + latency
// A worker and its peer are one node: what they say to each other costs nothing.
// There is no contention between links: a server's port that is the bottleneck is not modelled.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "wire/layout.h"
#include "wire/message.h"

namespace soapstone::sim {

class NetworkModel {
 public:
  static constexpr uint64_t kHeaderBytes = 100;

  // `bandwidth_mbps` 0: no limit.
  NetworkModel(double latency_us, double bandwidth_mbps)
      : latency_(static_cast<Nanos>(std::llround(latency_us * 1000))),
        ns_per_byte_(NanosPerByte(bandwidth_mbps)) {}

  // Size of a payload that is only counted: a push carries its bucket, a reply its shard, 4 bytes
  // an element. A block between seats is as large as it is.
  static uint64_t PayloadOf(const wire::Message& message, const wire::Layout& layout) {
    uint64_t elements = 0;
    if (message.type == wire::MessageType::kBlock) return message.payload_bytes();
    if (message.type == wire::MessageType::kPush) {
      elements =
          layout.buckets(ShardId{message.to.index})[Index(wire::As<wire::Push>(message).bucket)]
              .elements();
    } else if (message.type == wire::MessageType::kPullReply) {
      elements = layout.elements(ShardId{message.from.index});
    } else if (const auto* parcel = std::get_if<wire::Parcel>(&message.body)) {
      elements = parcel->end - parcel->begin;
    }
    return elements * sizeof(float);
  }
  static uint64_t BytesOf(const wire::Message& message, const wire::Layout& layout) {
    return kHeaderBytes + PayloadOf(message, layout);
  }

  // `limit_mbps`: what the link carries at most at present, beside its own bandwidth; 0: no limit.
  Nanos Arrival(Nanos now, wire::Address from, wire::Address to, uint64_t bytes,
                double limit_mbps = 0) {
    const double ns_per_byte = std::max(ns_per_byte_, NanosPerByte(limit_mbps));
    if (ns_per_byte == 0 && free_at_.empty()) return now + latency_;
    Nanos& free_at = free_at_[{Key(from), Key(to)}];
    free_at = std::max(now, free_at) +
              static_cast<Nanos>(std::llround(static_cast<double>(bytes) * ns_per_byte));
    return free_at + latency_;
  }

 private:
  static double NanosPerByte(double mbps) { return mbps > 0 ? 8000.0 / mbps : 0; }
  static uint64_t Key(wire::Address a) {
    return uint64_t{static_cast<uint8_t>(a.role)} << 32 | a.index;
  }

  Nanos latency_;
  double ns_per_byte_;
  absl::flat_hash_map<std::pair<uint64_t, uint64_t>, Nanos> free_at_;
};

}  // namespace soapstone::sim
