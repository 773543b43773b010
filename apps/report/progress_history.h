// ProgressHistory: how a job has got on since it began, at a bounded number of moments, for who
// begins to look when it has run for hours. A value; the scheduler's loop feeds it.
#pragma once

#include <cstddef>
#include <vector>

#include "apps/report/report.h"
#include "base/ids.h"

namespace soapstone::apps {

struct HistoryPoint {
  double at_s = 0;  // since the job began
  Clock clock = 0;  // of the slowest worker
  double samples_per_s = 0;
  double loss = 0;
  double lag_mean = 0;
  friend bool operator==(const HistoryPoint&, const HistoryPoint&) = default;
};

// Invariants: at most kPoints, ascending in time, never closer than a second; where there would be
// more every second one goes, and from then on they are twice as far apart.
class ProgressHistory {
 public:
  static constexpr size_t kPoints = 240;

  // A report at `at_s`; does not go back in time.
  void Take(double at_s, const ProgressReport& report);
  const std::vector<HistoryPoint>& points() const { return points_; }

 private:
  double apart_s_ = 1;
  std::vector<HistoryPoint> points_;
};

}  // namespace soapstone::apps
