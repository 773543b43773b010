// ProgressMeter: turns the workers' cumulative counters into rates "of late" and a time to go. A
// value; the scheduler's loop feeds it.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "apps/report/report.h"
#include "apps/report/result_text.h"
#include "base/ids.h"
#include "wire/message.h"

namespace soapstone::apps {

using ProgressByWorker = std::map<WorkerId, wire::Progress>;

// Sums over the workers.
wire::Progress SumOf(const ProgressByWorker& progress);

class ProgressMeter {
 public:
  struct Plan {
    Clock clocks = 0;  // of a worker, in the run
    Clock clocks_per_epoch = 1;
    uint32_t epochs = 1;
    bool language_model = false;  // its loss is a token's: the perplexity is said
  };
  explicit ProgressMeter(Plan plan) : plan_(plan) {}

  // A report at `now`; rates are over the last two seconds. The slowest is sought among the
  // roster's workers.
  ProgressReport Take(Nanos now, const ProgressByWorker& progress, const wire::Roster& roster);

  // The loss from the first reading to the last.
  std::vector<LossPoint> losses() const { return history_.Points(); }

 private:
  struct Reading {
    Nanos at = 0;
    Clock clock = 0;  // of the slowest
    wire::Progress sum;
  };
  static constexpr Nanos kWindow = 2 * kSecond;

  Plan plan_;
  std::deque<Reading> readings_;  // within the window, and one before it
  LossHistory history_;
  double last_loss_ = 0;
};

}  // namespace soapstone::apps
