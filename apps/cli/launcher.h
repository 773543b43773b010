// Launcher: `soapstone train`: starts a whole cluster on this machine as child processes, shows how
// it gets on, and sees to it that all of it ends together.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/cli/child_process.h"
#include "apps/cli/console.h"
#include "apps/cli/launched.h"
#include "apps/cli/node_flags.h"
#include "apps/cli/replanner.h"
#include "apps/report/report.h"
#include "base/exit_codes.h"
#include "base/ids.h"
#include "wire/config/job.pb.h"

namespace soapstone::apps {

// Settles a job whose strategy is to be found: with a file's path, or without one; says which.
// Returns kExitOk, or the code to end with: a signal came. Errors: the job runs in neither way.
using StrategyFinder =
    std::function<absl::StatusOr<int>(const NodeFlags& flags, wire::JobConfig* config)>;

// How strategies are found; empty and null: they are not.
struct Planners {
  StrategyFinder finder;           // of --strategy=auto
  Replanner* replanner = nullptr;  // of --replan; outlives the job
};

// Checks the job, then runs it. Returns the exit code of `soapstone train`.
// `hosts`: where servers and workers run; null: on this machine. Flags that want planners are
// refused without them.
int Train(const NodeFlags& flags, Hosts* hosts = nullptr, const Planners& planners = {});

// The folder of logs of a job that names none: "runs/20260131-235959".
std::string DefaultLogDir();

struct LauncherOptions {
  wire::JobConfig config;   // checked, with defaults
  uint32_t servers = 0;     // processes, of all levels of a tree; 0: in those of the workers
  std::string log_dir;      // exists
  std::string key;          // the folder of the children's keys; empty: without
  std::string program_dir;  // holds soapstone-scheduler, -server and -worker
  Hosts* hosts = nullptr;   // that start servers and workers; null: this machine does
  // A worker that was killed is started anew so much later; none: it is not. Of jobs whose
  // straggler model kills workers.
  std::optional<Nanos> successor_after;
  std::string http;  // of the scheduler's pages; empty: none
  std::string http_name;
  std::vector<std::string> notes;  // Job::notes
  bool utf8 = false;               // the console has Unicode's blocks
  Replanner* replanner = nullptr;  // outlives the launcher; null: the strategy stays
  uint32_t restarts = 0;           // of a job that has lost a process, without a new checkpoint
};

// Everything that can be known before a process starts: checks, the log folder, the children's job
// file. `hosts`: as Train's. Error: InvalidArgument with one line.
absl::StatusOr<LauncherOptions> PrepareLaunch(wire::JobConfig config, Hosts* hosts = nullptr);

// Invariants
//  1. Servers and workers start once the scheduler listens, at the endpoint it has then.
//  2. When Run returns no child runs, but of a host that is lost. From the first word of an end (a
//     failed child, the scheduler's exit) to that return it takes less than 6 s; from a signal
//     grace_s more.
// One thread. Run blocks SIGCHLD and StopSignals() in it, and ignores SIGPIPE. `console`
// outlives it.
class Launcher {
 public:
  Launcher(LauncherOptions options, Console* console);

  int Run();
  // After Run: the job was trained, whether or not files of its result could be written.
  bool finished() const { return finished_; }
  // After Run: the job stopped at a clock, and is to go on by another strategy.
  bool replanned() const { return stop_.has_value() && stop_->code == kExitStopped; }
  // After Run: what the scheduler reported, if it did; closing counters of nodes.
  const std::optional<ResultReport>& result() const { return result_; }
  const std::vector<NodeReport>& nodes() const { return nodes_; }

 private:
  // The end has begun.
  struct Stop {
    int code = 0;        // what `soapstone train` shall exit with
    std::string reason;  // empty: the scheduler knows it, if it ends by itself
    std::string by;      // else: which process ended, and how
    Nanos term_at = 0;   // SIGTERM to those that still run
    Nanos kill_at = 0;
    bool terminated = false;
    bool killed = false;
  };

  absl::StatusOr<std::unique_ptr<Launched>> Spawn(const std::string& role, int rank,
                                                  const std::string& log_name) const;
  std::string ServerIn(const Launched& child) const;
  absl::Status StartChild(const std::string& role, int rank);
  absl::Status StartNodes(const std::string& endpoint);
  void WaitForEvents();
  void ReadSignals();
  void ReadChildren();
  void OnReport(const Launched& child, const std::string& line);
  void OnStderrLine(const Launched& child, const std::string& line);
  bool HasBeenSaid(const std::string& line) const;
  void CheckEndings();
  void OnEnded(const Launched& child);
  // True: a successor will take this worker's place, when it is due.
  bool AwaitSuccessor(size_t index);
  absl::Status StartSuccessors();
  void OnSchedulerEnded(const Launched& child);
  void Fail(const Launched& child, int code);
  void BeginStop(int code, std::string reason, Nanos grace);
  bool looks_for_strategy() const;
  void LookForStrategy();
  void AwaitListening();
  void AwaitScheduler();
  void CarryOutStop();
  void TakeSignals();
  bool AllEnded() const;
  // Into the log folder; its path, or "".
  std::string WriteFile(const char* name, const std::string& content);
  // Another job may have the port next, or has the folder by now.
  void EndPages();
  // What all reported at their end, as files.
  TableOptions WriteResult();
  void ShowEnd();
  Launched* scheduler() { return children_.front().get(); }

  LauncherOptions options_;
  Console* console_;
  int signal_fd_ = -1;
  std::vector<std::unique_ptr<Launched>> children_;  // the scheduler first
  std::vector<bool> told_;                           // by child: its end was handled
  std::map<size_t, Nanos> successors_;               // by child: when one is due
  uint64_t successors_started_ = 0;
  std::string wanted_endpoint_;  // of Listening; nodes start when it is set
  bool nodes_started_ = false;
  bool training_ = false;  // past the start barrier
  bool unread_reports_ = false;
  std::optional<Nanos> stops_by_;  // the scheduler was told to stop for another strategy
  std::optional<int> asked_;       // the exit code of the first signal that asked for the end
  std::vector<std::string> recent_news_;
  std::optional<ResultReport> result_;
  std::vector<NodeReport> nodes_;
  std::optional<Stop> stop_;
  Nanos last_turn_ = 0;
  // The scheduler is the only one that runs; and it is stopped.
  Nanos alone_since_ = 0, stopped_since_ = 0;
  bool finished_ = false;
  uint64_t scheduler_ticks_ = 0;  // until it listens: its processor time, and when that last grew
  Nanos scheduler_worked_ = 0;
  std::string pages_;      // of the scheduler; empty: none, or not yet
  std::string unwritten_;  // why a file of the result could not be written
};

}  // namespace soapstone::apps
