#include "observe/timeline/clock_offset.h"

namespace soapstone::timeline {

void ClockOffset::Take(Nanos left, Nanos came, std::optional<Nanos>* least) {
  constexpr Nanos kMost = Nanos{1} << 59;
  if (left < -kMost || left > kMost || came < -kMost || came > kMost) return;
  if (!least->has_value() || came - left < **least) *least = came - left;
}

}  // namespace soapstone::timeline
