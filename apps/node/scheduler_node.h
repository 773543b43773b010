// SchedulerNode: the shell of the scheduler: runs the Coordinator over a transport and says how the
// job gets on.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/checkpoint/checkpoint_keeper.h"
#include "apps/loop/node_loop.h"
#include "apps/loop/recorder.h"
#include "apps/node/status_host.h"
#include "apps/report/progress_history.h"
#include "apps/report/progress_meter.h"
#include "apps/report/report.h"
#include "apps/report/slow_workers.h"
#include "base/memory/buffer.h"
#include "cluster/job.h"
#include "scheduler/coordinator.h"
#include "scheduler/seat_speeds.h"
#include "transport/transport.h"

namespace soapstone::apps {

// The coordinator's part of a job, for the scheduler and for its replay.
scheduler::CoordinatorOptions CoordinatorOptionsOf(const Job& job, uint64_t session);

// One thread calls Run; RequestStop from any. `reports` outlives it.
class SchedulerNode {
 public:
  // `session`: random, nonzero. `transport` listens already.
  SchedulerNode(std::shared_ptr<const Job> job, std::unique_ptr<transport::Transport> transport,
                uint64_t session, ReportSink* reports);

  // Before Run: what the coordinator handles is written there. May be null.
  void RecordTo(std::unique_ptr<Recorder> recorder) { recorder_ = std::move(recorder); }
  // Before Run: orders and keeps the job's checkpoints. May be null.
  void KeepCheckpointsBy(std::unique_ptr<CheckpointKeeper> keeper) {
    checkpoints_ = std::move(keeper);
  }
  // Before Run: how the job is, is shown there. May be null; outlives it.
  void ShowAt(StatusHost* status) { status_ = status; }
  // Runs the job to its end. Returns the exit code.
  int Run();
  // Within Run: the job ends with `end` at the first clock that no worker has begun, as soon as a
  // checkpoint of that is written; or without one `grace_ns` from now, where it does not go on then
  // (`or_goes_on`). True: so it will, or by an earlier call; false: it has no checkpoints, or does
  // not train.
  bool EndWithCheckpoint(Nanos now, wire::Notice end, Nanos grace_ns, bool or_goes_on = false);
  // Ends the job, where it has checkpoints with one; a second time at once. Run returns `code`, or
  // that of what LearnWhy was told before. From any thread.
  void RequestStop(int code) { loop_.RequestStop(code); }
  // As EndWithCheckpoint does, for another strategy; else it goes on. From any thread.
  void StopForStrategy() {
    stop_for_strategy_ = true;
    loop_.Wake();
  }
  // A signal's value (base/stop_signals.h): which process has ended, if it says so.
  void LearnWhy(int signal_value) { signal_value_ = signal_value; }

 private:
  void Deliver(Nanos now, const wire::Message& message);
  void Record(const sim::RecordedEvent& event) {
    if (recorder_ != nullptr) recorder_->Write(event);
  }
  void TakeLastWord(Nanos now, wire::Address node, const wire::Notice& end);
  void DoubtThoseThatEnded(Nanos now);
  void Abort(Nanos now, int32_t code, std::string why);
  void EndAsTold(Nanos now);
  void Lose(Nanos now, wire::Address node, Epoch heard, std::string_view why = {});
  void Flush();
  void Watch(Nanos now);  // phases and news
  void TellViolations();
  void LookAtCheckpoints(Nanos now);
  void Report(Nanos now);
  void ReportSpeeds();
  // News for the user: to the log too, or where that has it already.
  void Tell(std::string line);
  void Keep(std::string line);
  NodeStatus StatusNow(Nanos now) const;
  std::vector<ShardLags> LagsNow(Nanos now) const;
  void ShowEnd(const ResultReport& result);
  ResultReport Result() const;
  void AddEvaluation(ResultReport* result) const;
  // Of what is left of checkpoints when all others have been told that the job is over.
  void EndCheckpoints(ResultReport* result);
  void TakeBest(ResultReport* result) const;
  bool WaitsNoMore(bool asked) const;

  std::shared_ptr<const Job> job_;
  NodeLoop loop_;
  std::atomic<int> signal_value_ = 0;
  std::atomic<bool> stop_for_strategy_ = false;
  scheduler::Coordinator coordinator_;
  ProgressMeter meter_;
  ReportSink* reports_;
  StatusHost* status_ = nullptr;
  const Nanos began_ = NodeLoop::Now();
  SlowWorkers slow_;
  std::optional<scheduler::SeatSpeeds> speeds_;  // of jobs with a strategy
  ProgressHistory history_;
  std::deque<std::string> news_;  // the last of them
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<CheckpointKeeper> checkpoints_;
  wire::Outbox out_;
  Buffers confusion_;              // of the evaluation that counted
  std::vector<uint32_t> leaving_;  // workers that the job has stopped for
  std::optional<Nanos> running_since_;
  std::optional<Nanos> running_until_;
  Nanos next_report_ = 0;
  std::set<WorkerId> told_violations_;  // by whom
  ProgressReport last_progress_;
};

}  // namespace soapstone::apps
