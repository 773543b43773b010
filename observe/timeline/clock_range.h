// ClockRange: which clocks a timeline is of. Jobs, processes and the command that draws have it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/ids.h"

namespace soapstone::timeline {

// Clocks [begin, end).
struct ClockRange {
  Clock begin = 0;
  Clock end = kClockMax;

  bool Has(Clock clock) const { return begin <= clock && clock < end; }
  // Of all clocks there is no count.
  bool bounded() const { return end < kClockMax; }
  friend bool operator==(const ClockRange&, const ClockRange&) = default;
};

// "100:120" is [100, 120); "" is all. Error: InvalidArgument, one line.
absl::StatusOr<ClockRange> ParseClockRange(const std::string& text);

// "100 to 119", "all".
std::string ToString(const ClockRange& range);

}  // namespace soapstone::timeline
