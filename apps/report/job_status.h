// JobStatus: how a node of a job is right now, and on the scheduler how the whole job is, as a
// value; as JSON for programs and as a screen of text for people. No I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/report/progress_history.h"
#include "apps/report/report.h"
#include "base/ids.h"
#include "wire/message.h"

namespace soapstone::apps {

// Of a worker, as the scheduler knows it.
struct WorkerStatus {
  uint32_t worker = 0;
  std::string host;     // as it says; empty: not known, or it is gone
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

// How the reads of a shard stand, by what its server last said.
struct ShardLags {
  uint32_t server = 0;
  bool groups = false;  // its readers are groups of workers: it is at the root of a tree
  double age_s = 0;     // since that came
  // What the policy promises there; empty: nothing.
  std::optional<Clock> read_lag_max;
  std::optional<Clock> clock_gap_max;
  wire::ShardReads reads;
  friend bool operator==(const ShardLags&, const ShardLags&) = default;
};

// How the job ended.
struct JobEnd {
  int code = 0;  // of the exit
  std::string reason;
  friend bool operator==(const JobEnd&, const JobEnd&) = default;
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
  std::string missing;         // "server 1, worker 2": nobody has these ranks
  bool decentralised = false;  // workers read from one another: shards do not see their clocks
  ProgressReport progress;
  std::vector<WorkerStatus> workers;
  std::vector<ShardLags> shards;  // ascending
  std::vector<HistoryPoint> history;
  std::vector<std::string> news;  // the last lines, oldest first
  std::optional<JobEnd> ended;
  friend bool operator==(const JobStatus&, const JobStatus&) = default;
};

std::string StatusJson(const JobStatus& status);
// Error: InvalidArgument, where the text is no such object.
absl::StatusOr<JobStatus> StatusFromJson(const std::string& text);

// Lines of at most `columns` bytes, without escapes: what comes from other nodes is shown with its
// control characters replaced. `utf8`: bars of blocks.
std::string StatusScreen(const JobStatus& status, size_t columns, bool utf8);

}  // namespace soapstone::apps
