// CheckpointKeeper: the scheduler's part in checkpoints: it has the folder to itself, orders one
// after another, commits what is whole on a thread of its own, and keeps the last two, and the best
// where that is asked for. A part of the scheduler's shell.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/checkpoint/best_keeper.h"
#include "base/ids.h"
#include "base/memory/bounded_inbox.h"
#include "checkpoint/disk.h"
#include "checkpoint/folder_lock.h"
#include "cluster/job.h"
#include "scheduler/checkpoints/checkpoint_orders.h"
#include "scheduler/checkpoints/leaving_nodes.h"
#include "wire/config/checkpoint.pb.h"
#include "wire/message.h"
#include "wire/outbox.h"

namespace soapstone::apps {

// The loop's thread calls all.
class CheckpointKeeper {
 public:
  // What has been trained, since the job's first start.
  struct Trained {
    Clock newest = 0;  // clock of a worker, as far as is known
    uint64_t samples = 0;
    double seconds = 0;
  };

  // Null where the job has no checkpoints. `wake`: makes the loop call Look; any thread calls it.
  // Error: InvalidArgument, one line: the folder cannot be had, is in use, or lacks the checkpoint
  // that the job goes on from.
  static absl::StatusOr<std::unique_ptr<CheckpointKeeper>> Open(std::shared_ptr<const Job> job,
                                                                uint64_t session);
  ~CheckpointKeeper();  // what is being committed is
  CheckpointKeeper(const CheckpointKeeper&) = delete;
  CheckpointKeeper& operator=(const CheckpointKeeper&) = delete;

  // How the job is to end with a checkpoint.
  struct End {
    wire::Notice notice;      // that it ends with, and says to all
    Nanos by = 0;             // it is given up then
    bool or_goes_on = false;  // then training goes on; else the job ends without
  };

  // Nothing is evaluated before.
  void WakeBy(std::function<void()> wake) {
    wake_ = std::move(wake);
    has_wake_ = true;
  }
  // True: kBounded of a worker, kCaptured or kWritten of a shard, kAskLeave of a server or worker,
  // which is for nobody else.
  bool Take(Nanos now, const wire::Message& message);
  // Commits what is whole, orders the next, and answers who asks to leave. `trained` is of this
  // run; `silent`: nodes that were not heard of late.
  void Look(Nanos now, const Trained& trained, const wire::Roster& roster,
            const std::vector<wire::Address>& silent, wire::Outbox* out);
  // As soon as all workers have come to one clock, and that is written. Of two ends the first is
  // what counts, but for one after which training, or another run, goes on.
  void EndBy(End end);
  bool ending() const { return end_.has_value(); }
  // What the job ends with now; none: not yet. After each Look.
  std::optional<wire::Notice> TakeEnd(Nanos now);
  // The workers have done their last step, or the job ends.
  void Stop() {
    stopped_ = true;
    orders_.Stop();
  }
  // Ranks of the workers that it has ended for.
  std::vector<uint32_t> leaving() const { return leaving_.workers(); }
  // Lines for the user since the last call.
  std::vector<std::string> TakeNews();
  // Clock of the newest that this run has committed; 0: none.
  Clock newest() const { return last_; }
  // The best so far, of jobs that ask for it; none: none has been evaluated.
  const std::optional<wire::BestCheckpoint>& best() const { return best_so_far_; }
  // It has ended the job because too many evaluations in a row were not better than the best.
  bool stopped_early() const { return stopped_early_; }
  // What has been committed is not evaluated yet. A job that does not look for the best: false.
  bool evaluates() const { return best_ != nullptr && (commits_made_ < commits_ || evaluates_); }
  // When the job has ended. Both wait, a few minutes at most, until `gives_up`; its news follow.
  // What has been committed is evaluated.
  void FinishEvaluations(const std::function<bool()>& gives_up);
  // Writes the best as a model's file. REQUIRES: there is one. Error: InvalidArgument, one line.
  absl::Status ExportBest(const std::string& path, const std::function<bool()>& gives_up) const;
  // "9 checkpoints are in DIR, the last of clock 900"; empty: there was none, nor a fault.
  std::string Summary() const;

 private:
  // What the thread is to do: commit, or take away what was given up.
  using Task = std::variant<wire::Checkpoint, Clock>;
  struct Outcome {
    Clock clock = 0;
    std::string error;
  };
  CheckpointKeeper(std::shared_ptr<const Job> job, uint64_t session);
  void Run();
  void LookAtBest();
  void TakeVerdict(Nanos now, BestKeeper::Verdict verdict);
  absl::Status OpenBest();
  absl::Status PruneOld();
  std::string Commit(const wire::Checkpoint& manifest);
  void LookAtLeaving(Nanos now, const wire::Roster& roster,
                     const std::vector<wire::Address>& silent, wire::Outbox* out);
  wire::Checkpoint ManifestOf(const scheduler::CheckpointOrders::Whole& whole,
                              const Trained& trained) const;

  std::shared_ptr<const Job> job_;
  uint64_t session_;
  std::string folder_;
  std::unique_ptr<checkpoint::Disk> disk_ = checkpoint::RealDisk();
  checkpoint::FolderLock lock_;
  wire::Checkpoint first_;  // that the job goes on from
  std::string strategy_;    // text of the job's; empty: it has none
  scheduler::CheckpointOrders orders_;
  Clock last_ = 0;  // committed
  std::optional<End> end_;
  scheduler::LeavingNodes leaving_;
  bool stopped_ = false;
  bool said_too_late_ = false;
  std::vector<std::string> news_;
  std::vector<int64_t> kept_;           // of the thread: clocks, ascending
  bool has_committed_ = false;          // of the thread
  std::optional<int64_t> former_best_;  // of a job before, which this one does not look for
  std::string command_;                 // `soapstone`; empty: the best is not looked for
  std::unique_ptr<BestKeeper> best_;    // of the thread
  uint64_t commits_ = 0;                // that the thread was told to make
  std::atomic<uint64_t> commits_made_ = 0;
  std::atomic<bool> evaluates_ = false;
  std::optional<wire::BestCheckpoint> best_so_far_;
  bool stopped_early_ = false;
  std::function<void()> wake_ = [] {};
  std::atomic<bool> has_wake_ = false;
  BoundedInbox<Task> tasks_;
  BoundedInbox<Outcome> outcomes_;
  BoundedInbox<BestKeeper::Verdict> verdicts_;
  std::jthread thread_;
};

}  // namespace soapstone::apps
