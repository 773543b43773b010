#include "server/store/capture.h"

namespace soapstone::server {

std::optional<Capture> CaptureOrder::Look(Clock frontier, const Store& store) {
  if (!clock_.has_value() || frontier < *clock_) return std::nullopt;
  const Clock clock = *clock_;
  clock_.reset();
  missed_ = frontier > clock;
  if (missed_) return std::nullopt;
  return Capture{.clock = clock, .slices = store.Capture()};
}

}  // namespace soapstone::server
