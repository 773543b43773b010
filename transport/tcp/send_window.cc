#include "transport/tcp/send_window.h"

namespace soapstone::transport {
namespace {

constexpr double kNew = 0.25;        // part that a sample has in the rate
constexpr Nanos kSlackShrinks = 16;  // part that the slack loses with a sample
constexpr uint64_t kDryPart = 16;    // of the window: less than that is as good as nothing
constexpr uint64_t kSteps = 8;       // a change of less than one part in so many is none

}  // namespace

bool SendWindow::OnLook(const Look& look) {
  if (look.round_trip_min > 0) round_trip_min_ = look.round_trip_min;
  if (look.segment_bytes > 0) segment_bytes_ = look.segment_bytes;
  if (!measures_) {
    measures_ = true;
    ran_dry_ = false;
    began_ = look.now;
    acknowledged_ = look.acknowledged;
    return false;
  }
  const uint64_t nothing = bounded() ? bytes_ / kDryPart : 0;
  ran_dry_ = ran_dry_ || look.outstanding <= nothing;
  const Nanos took = look.now - began_;
  if (took < options_.sample_min) return false;
  Sample(static_cast<double>(look.acknowledged - acknowledged_) /
         (static_cast<double>(took) / kSecond));
  ran_dry_ = false;
  began_ = look.now;
  acknowledged_ = look.acknowledged;
  const uint64_t wanted = BytesIn(round_trip_min_ + slack_);
  const uint64_t difference = wanted > bytes_ ? wanted - bytes_ : bytes_ - wanted;
  const bool ends = wanted == options_.bytes_max || wanted == BytesMin();
  if (difference == 0 || (difference < bytes_ / kSteps && !ends)) return false;
  bytes_ = wanted;
  return true;
}

void SendWindow::Sample(double rate) {
  if (bytes_per_s_ == 0) {
    bytes_per_s_ = rate;
  } else if (!ran_dry_ || rate > bytes_per_s_) {
    bytes_per_s_ += kNew * (rate - bytes_per_s_);
  }
  if (ran_dry_) {
    slack_ = std::min(options_.slack_max, 2 * slack_);
  } else {
    slack_ -= (slack_ - options_.slack_min) / kSlackShrinks;
  }
}

uint64_t SendWindow::BytesIn(Nanos time) const {
  const double bytes = bytes_per_s_ * static_cast<double>(time) / kSecond;
  if (bytes_per_s_ == 0 || bytes >= static_cast<double>(options_.bytes_max)) {
    return options_.bytes_max;
  }
  return std::max(BytesMin(), static_cast<uint64_t>(bytes));
}

}  // namespace soapstone::transport
