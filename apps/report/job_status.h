// JobStatus: how a node of a job is right now, and on the scheduler how the whole job is, as a
// value; as JSON for programs and as a screen of text for people. No I/O.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/report/report.h"
#include "base/ids.h"

namespace soapstone::apps {

// Of a worker, as the scheduler knows it.
struct WorkerStatus {
  uint32_t worker = 0;
  bool member = false;  // it takes part now
  Clock clock = 0;      // completed
  uint64_t samples = 0;
  double loss = 0;      // of all its samples
  double lag_mean = 0;  // of its reads
  uint64_t lag_max = 0;
  WorkerTimes times;
  double step_s = 0;    // its own time a step of late, without waiting for others' updates
  double slowdown = 0;  // that over the median worker's; 0: not known
  std::string waits;    // for what, now; empty: for nothing that it has told
  friend bool operator==(const WorkerStatus&, const WorkerStatus&) = default;
};

struct JobStatus {
  std::string role;  // "scheduler"
  int64_t rank = -1;
  std::string version;
  std::string job;  // as ResultReport
  std::string policy;
  std::string phase;  // "registering", "installing", "running", "evaluating", "saving", "closing"
  bool ready = false;
  std::string waits;  // why it is not
  double up_s = 0;    // since the node began
  std::string security = "off: neither encrypted nor authenticated";
  // Of the scheduler alone.
  uint32_t servers = 0;  // of the job
  uint32_t servers_there = 0;
  uint32_t workers_wanted = 0;
  ProgressReport progress;
  std::vector<WorkerStatus> workers;
  std::vector<std::string> news;  // the last lines, oldest first
  friend bool operator==(const JobStatus&, const JobStatus&) = default;
};

std::string StatusJson(const JobStatus& status);
// Error: InvalidArgument, where the text is no such object.
absl::StatusOr<JobStatus> StatusFromJson(const std::string& text);

// Lines of at most `columns` bytes, without escapes: what comes from other nodes is shown with its
// control characters replaced. `utf8`: bars of blocks.
std::string StatusScreen(const JobStatus& status, size_t columns, bool utf8);

}  // namespace soapstone::apps
