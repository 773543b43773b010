// SendWindow: how much a connection is given ahead of what has arrived. What the kernel has taken
// cannot be overtaken any more, so the window is the rate of the link times the delay that an
// urgent message may have; on a fast link it is more than the kernel takes anyway, and not held to.
// The owner tells what it sees where the connection had refused bytes and takes some again. A
// value: it has no clock and touches no socket. Who calls: StreamChannel.
//
//   window = rate x (shortest round trip + slack)
//
// Invariants
//  1. Only time in which the connection had more to send counts for the rate. Where it ran dry
//     meanwhile the link may have carried more: such a sample only raises the rate.
//  2. A connection that runs dry was given too little: the slack doubles, up to slack_max. While
//     that does not happen it goes back to slack_min. So a sender that is woken late, or a way
//     whose length is not known, costs some delay and not the throughput.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/ids.h"

namespace soapstone::transport {

struct SendWindowOptions {
  Nanos slack_min = kMillisecond;
  Nanos slack_max = 4 * kMillisecond;
  Nanos sample_min = 5 * kMillisecond;
  uint64_t bytes_min = 64 << 10;
  // Of TCP, at least as many: who receives fewer acknowledges them 40 ms late.
  uint64_t segments_min = 8;
  // As much or more is no window: the kernel decides.
  uint64_t bytes_max = 2 << 20;
};

class SendWindow {
 public:
  struct Look {
    Nanos now = 0;
    uint64_t acknowledged = 0;   // bytes, since the connection began
    uint64_t outstanding = 0;    // bytes that the kernel has taken and the other side has not
    Nanos round_trip_min = 0;    // as far as it is known
    uint32_t segment_bytes = 0;  // what TCP sends at a time, likewise
  };

  explicit SendWindow(SendWindowOptions options = {})
      : options_(options), slack_(options.slack_min) {}

  // More is to be sent, and bytes had been refused. True: bytes() is another now.
  bool OnLook(const Look& look);
  // All was taken: the time until the next Look says nothing about the link.
  void OnIdle() { measures_ = false; }

  double bytes_per_s() const { return bytes_per_s_; }  // 0: not known yet
  bool bounded() const { return bytes_ < options_.bytes_max; }
  // bytes_max: not bounded, or not known yet.
  uint64_t bytes() const { return bytes_; }
  // Of it, for what has not left the machine.
  uint64_t slack_bytes() const { return BytesIn(slack_); }

 private:
  void Sample(double rate);
  uint64_t BytesIn(Nanos time) const;
  uint64_t BytesMin() const {
    return std::max(options_.bytes_min, options_.segments_min * segment_bytes_);
  }

  SendWindowOptions options_;
  Nanos slack_;
  Nanos round_trip_min_ = 0;
  uint64_t segment_bytes_ = 0;
  double bytes_per_s_ = 0;
  uint64_t bytes_ = options_.bytes_max;
  bool measures_ = false;
  bool ran_dry_ = false;  // since began_
  Nanos began_ = 0;
  uint64_t acknowledged_ = 0;
};

}  // namespace soapstone::transport
