// ExperimentRunner: makes the runs of an agenda, several at once, and keeps each as soon as it is
// done.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "experiment/agenda.h"
#include "experiment/run.h"

namespace soapstone::apps {

// What a runner is at.
struct ExperimentProgress {
  size_t finished = 0;  // runs, earlier processes' included
  size_t total = 0;
  double share = 0;          // of all runs, parts of those under way included
  double eta_s = -1;         // negative: not known yet
  experiment::RunPlan plan;  // one that is under way
};

struct RunnerOptions {
  unsigned jobs = 1;  // runs at once, each on a thread; 0: one after the other on the caller's
  experiment::RunFunction run;
  // A finished run, before it counts. One call at a time.
  std::function<absl::Status(const experiment::RunPlan&, const experiment::RunOutcome&)> keep;
  std::function<void(const ExperimentProgress&)> progress;  // one call at a time
  std::function<double()> wall_seconds;
};

// Threads: `jobs` of its own. Stop may be called from any.
class ExperimentRunner {
 public:
  ExperimentRunner(RunnerOptions options, experiment::Agenda* agenda);
  // REQUIRES: Run has returned true for `ended`, or was never called.
  ~ExperimentRunner();
  ExperimentRunner(const ExperimentRunner&) = delete;
  ExperimentRunner& operator=(const ExperimentRunner&) = delete;

  struct End {
    absl::Status status;  // Cancelled after Stop; the first error of a run or of keep
    bool ended = true;    // false: stopped, and a run still computes, which nobody will keep; the
                          // process is to end without destructors
  };
  // Blocks until all runs are made, one fails, or a second after Stop.
  End Run();
  void Stop();

 private:
  void Work();
  bool Report(const experiment::RunPlan& plan, double fraction);
  void ShowProgress(const experiment::RunPlan& plan) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(const experiment::RunPlan& plan, absl::StatusOr<experiment::RunOutcome> outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RunnerOptions options_;
  Mutex mutex_;
  Signal changed_;
  experiment::Agenda* agenda_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;  // nothing is kept any more
  unsigned working_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, double> fractions_ ABSL_GUARDED_BY(mutex_);  // of runs under way, by id
  size_t finished_before_ = 0;
  double began_s_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace soapstone::apps
