#include "apps/report/progress_history.h"

namespace soapstone::apps {

void ProgressHistory::Take(double at_s, const ProgressReport& report) {
  if (!points_.empty() && at_s < points_.back().at_s + apart_s_) return;
  if (points_.size() == kPoints) {
    for (size_t i = 0; 2 * i < points_.size(); ++i) points_[i] = points_[2 * i];
    points_.resize(kPoints / 2);
    apart_s_ *= 2;
    if (at_s < points_.back().at_s + apart_s_) return;
  }
  points_.push_back({.at_s = at_s,
                     .clock = report.clock,
                     .samples_per_s = report.samples_per_s,
                     .loss = report.loss,
                     .lag_mean = report.lag_mean});
}

}  // namespace soapstone::apps
