// SlowWorkers: which workers take longer for a step than the others, by their own time: computing,
// injected delays and the network, and never waiting for what others still owe. A value; the
// scheduler's loop feeds it with what the workers report.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "apps/report/progress_meter.h"
#include "base/ids.h"
#include "wire/message.h"

namespace soapstone::apps {

// A worker is slow whose own time a step over its last 5 s and at least 5 clocks, however long
// those take, is more than 1.5 times the median's, twice running; it is slow no more below 1.3
// times, twice running. The median of an even number is the lesser one, so that of two workers one
// can be slow. Invariant: each beginning and each end is told once.
class SlowWorkers {
 public:
  struct Pace {
    double step_s = 0;    // its own time a step
    double slowdown = 0;  // over the median's
    double compute = 0;   // of step_s: the share of computing
  };

  // A look at `now`; lines for the user, such as "worker 3 is slow: 41 ms a step, median 22 ms,
  // since 0:40; compute 93%". `since`: when the job began.
  std::vector<std::string> Take(Nanos now, Nanos since, const ProgressByWorker& progress,
                                const wire::Roster& roster);
  // Of the last look that came to a pace; members with too few clocks have none.
  const std::map<WorkerId, Pace>& paces() const { return paces_; }

 private:
  static constexpr Nanos kWindow = 5 * kSecond;
  static constexpr Nanos kEvery = 1250 * kMillisecond;  // from a look to the next
  static constexpr Clock kClocksMin = 5;
  static constexpr double kSlow = 1.5;
  static constexpr double kSlowNoMore = 1.3;

  struct Sample {
    Nanos at = 0;
    Clock clock = 0;
    Nanos own = 0;       // its own time so far
    Nanos computed = 0;  // of that, what it computed
  };
  // Of looks at which it had come on: those within its window, and the last before it. With steps
  // of half a minute there are no more of them than with short ones.
  using Samples = std::deque<Sample>;
  struct Verdict {
    bool slow = false;
    int against = 0;  // looks running that say otherwise
    Nanos since = 0;  // of the first of them
  };
  // Whether it has come on since the last look.
  static bool Add(Nanos now, const wire::Progress& progress, Samples* samples);
  void Measure();
  std::string Judge(WorkerId worker, const Pace& pace, Nanos since);

  Nanos looked_ = -kEvery;
  std::map<WorkerId, Samples> samples_;
  std::map<WorkerId, Pace> paces_;
  std::map<WorkerId, Verdict> verdicts_;
};

}  // namespace soapstone::apps
