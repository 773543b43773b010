// Rejections: counts received messages that were not taken and logs them, at most one line a
// second, so that a hostile or broken peer cannot fill the disk.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "base/steady_clock.h"

namespace soapstone::transport {

class Rejections {
 public:
  void Add(const absl::Status& reason, SteadyTime now);
  uint64_t count() const { return count_; }

 private:
  uint64_t count_ = 0;
  uint64_t logged_count_ = 0;
  SteadyTime next_log_ = SteadyTime::InfinitePast();
};

}  // namespace soapstone::transport
