// Replanner: finds another strategy for a job in progress whose workers compute faster or more
// slowly than when it began. What the launcher asks of one; apps/plan/running_replanner.h is one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/report/report.h"
#include "base/ids.h"
#include "wire/config/job.pb.h"

namespace soapstone::apps {

// In the order of its functions: Prepare once, then of each run of the job the others.
class Replanner {
 public:
  virtual ~Replanner() = default;
  // Before a process of the job starts: measures what is missing. Returns kExitOk, or the code to
  // end with: a signal came. Error: InvalidArgument, one line: it is no job that can be planned
  // anew. REQUIRES: this process has one thread.
  virtual absl::StatusOr<int> Prepare(const wire::JobConfig& config) = 0;
  // The job runs, by a strategy. `log_dir` has its file.
  virtual void Begin(Nanos now, const wire::JobConfig& config, const std::string& log_dir) = 0;
  virtual void Take(Nanos now, const ProgressReport& progress) = 0;
  virtual void Take(Nanos now, const SlownessReport& slowness) = 0;
  virtual void AppendFds(std::vector<int>* fds) const = 0;  // to wait at for input
  // Goes on with what was begun, and waits for nothing. Lines for the user.
  virtual std::vector<std::string> Turn(Nanos now) = 0;
  // A strategy is there that is worth the stop.
  virtual bool found() const = 0;
  // What was found is not taken: the job has not come to stop.
  virtual void GiveUp() = 0;
  // The run ends: nothing more of it is planned. True: `config` has got the strategy to go on by:
  // what was found; or where it stopped because workers of the only team leave, these ranks, one
  // for the others, which takes a second or two. Error: there is none for them, one line.
  virtual absl::StatusOr<bool> End(const std::vector<uint32_t>& leaving,
                                   wire::JobConfig* config) = 0;
};

}  // namespace soapstone::apps
