#include "observe/timeline/clock_offset.h"

#include <algorithm>

namespace soapstone::timeline {

void ClockOffset::Take(Nanos left, Nanos came, Nanos* least) {
  constexpr Nanos kMost = Nanos{1} << 59;
  if (left < -kMost || left > kMost || came < -kMost || came > kMost) return;
  *least = std::min(*least, came - left);
}

std::optional<ClockOffset::Estimate> ClockOffset::estimate() const {
  if (forth_ == kNone || back_ == kNone) return std::nullopt;
  // Each is below 2^60, so that neither sum overflows. Clocks that run at other speeds can make the
  // round trip negative: the error is as large then.
  const Nanos error = (forth_ + back_) / 2;
  return Estimate{.offset = (forth_ - back_) / 2, .error = error < 0 ? -error : error};
}

}  // namespace soapstone::timeline
