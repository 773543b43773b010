// Engine: the worker's actor. Runs step programs: sends pulls, keeps replies until all shards have
// answered, hands device instructions to the device, pushes buckets as they become ready, clocks.
// With a layout by transfer stages it works across the end of a step: a shard is asked for its next
// values as soon as it has its clock, and the next step's forward pass begins with what is here.
//
// What it knows lies in its parts, which send nothing: which program comes next (step_schedule.h),
// what of a program may go (program_run.h), the values that were asked for (pulls.h), since when
// they are waited for (pull_watch.h), what a lost worker owed (takeover.h) or a lost team
// (team_takeover.h), what the other seats of its team have sent (team_blocks.h), and what its reads
// show of the guarantee (reply_ledger.h).
//
// Invariants
//  1. Device commands of a program are issued in program order.
//  2. Parameters are replaced only when all shards' replies of one clock are here; until then
//     the parameters of the current clock stay valid, so micro-batches of a lost worker can be
//     recomputed. By transfer stages they are replaced one after another, and the replies they came
//     from are kept until the last one is: if a micro-batch is to be recomputed they are loaded
//     again, and the step begins anew.
//  3. On each channel to a shard, the order is: pushes of clock c, clock c+1, pull of c+1.
//  4. No clock at or above the bound it told the scheduler is begun before it is set free: by the
//     roster after shares were agreed on, or by a later order of the scheduler's.
//  5. Values that are not here `patience_ns` after they were asked for, or twice what answers take
//     lately, are asked for again, each time after twice as long: a read that is repeated is a
//     read, and of two answers the later is dropped.
//  6. Where a shard goes on at another server, all is said again that no answer of the shard's
//     stands for (unanswered.h), before anything new.
// Single-threaded; keeps pointers only to shared immutable values. Never blocks, never sleeps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fingerprint.h"
#include "consistency/policy.h"
#include "wire/outbox.h"
#include "worker/device/device.h"
#include "worker/engine_options.h"
#include "worker/program/program.h"
#include "worker/program_run.h"
#include "worker/pull_watch.h"
#include "worker/pulls.h"
#include "worker/reply_ledger.h"
#include "worker/step_schedule.h"
#include "worker/takeover.h"
#include "worker/team_blocks.h"
#include "worker/team_takeover.h"
#include "worker/unanswered.h"

namespace soapstone::worker {

struct EngineOutput {
  wire::Outbox* outbox = nullptr;
  std::vector<DeviceCommand>* commands = nullptr;
};

class Engine {
 public:
  static constexpr wire::TimerId kWatch{2000};

  explicit Engine(EngineOptions options);

  // From the network: kRoster, kStart, kBound, kPullReply, kReject, kBlock, kLoaded, kEvaluate.
  // Others are dropped.
  void OnMessage(Nanos now, const wire::Message& message, EngineOutput out);
  void OnDevice(Nanos now, DeviceEvent event, EngineOutput out);
  // At kWatch: asks again for what has not come. It ends nothing: a read may be parked for an hour.
  void OnTimer(Nanos now, EngineOutput out);

  // Finish the step in hand, push it, then tell the scheduler (kLeave).
  void RequestLeave() { schedule_.RequestLeave(); }

  // Cumulative counters for heartbeats and the closing table.
  const wire::Progress& progress() const { return progress_; }
  // The same, with what has been waited for longer than the patience, if there is any.
  wire::Progress ProgressAt(Nanos now) const;
  // Completed local steps.
  Clock clock() const { return schedule_.clock(); }
  // All clocks done and said so (the final evaluation may still be asked for).
  bool done() const { return phase_ == Phase::kDone; }
  bool left() const { return phase_ == Phase::kLeft; }
  // Values that it has asked for are not here.
  bool waits() const;
  // Set when a shard refused a message of ours: the job cannot go on in this process.
  const std::optional<std::string>& failure() const { return failure_; }

  // What this worker's reads show of the guarantee.
  const ReplyLedger& replies() const { return replies_; }

  void AddTo(Fingerprint* f) const;

 private:
  enum class Phase : uint8_t { kWaiting, kRunning, kDone, kLeft };

  void OnRoster(Nanos now, const wire::Message& message, EngineOutput out);
  void OnStart(Nanos now, const wire::Message& message, EngineOutput out);
  void OnBound(Nanos now, const wire::Message& message, EngineOutput out);
  void OnReject(const wire::Message& message);
  void OnPullReply(Nanos now, const wire::Message& reply, EngineOutput out);
  void OnBlock(Nanos now, const wire::Message& message, EngineOutput out);
  // Of who had the shard's messages before: what it stands for is said again already.
  bool IsOfFormerHead(ShardId shard, const wire::Message& reply) const;
  // False: it has other frames than the layout, which is a failure.
  bool FitsLayout(ShardId shard, const wire::Message& reply);
  // An answer to the run in hand, of no later clock.
  void TakeReply(Nanos now, ShardId shard, const wire::Message& reply, EngineOutput out);

  void BeginNext(Nanos now, EngineOutput out);
  void Begin(Nanos now, std::shared_ptr<const Program> program, EngineOutput out);
  // Issues whatever has become ready, in program order; ends finished runs.
  void Advance(Nanos now, EngineOutput out);
  void Issue(Nanos now, ProgramRun* run, EngineOutput out);
  void IssueToDevice(Nanos now, ProgramRun* run, uint32_t index, EngineOutput out);
  void IssueToNetwork(Nanos now, ProgramRun* run, uint32_t index, EngineOutput out);
  void IssuePull(Nanos now, ProgramRun* run, uint32_t index, ShardId shard, EngineOutput out);
  DeviceCommand CommandFor(const ProgramRun& run, uint32_t index) const;
  wire::Message MessageFor(ProgramRun* run, uint32_t index);
  void EndRun(Nanos now, EngineOutput out);
  void Leave(EngineOutput out);
  void Finish(EngineOutput out);

  // Of a seat, what its team takes over for lost ones (engine_takeover.cc).
  void OnRosterOfTeam(Nanos now, EngineOutput out);
  void OnLoaded(Nanos now, const wire::Message& message, EngineOutput out);
  void TakeEarlyValues(Nanos now, EngineOutput out);
  void AdvanceTakeover(Nanos now, EngineOutput out);
  // Goes on with what was held while the words of some seats were not here.
  void GoOnIfAgreed(Nanos now, bool held, EngineOutput out);
  bool HoldsLoads() const { return options_->team_takes_over() && team_.takeover.holds(); }

  // Fixed-tree policies: takes over micro-batches of lost workers in the step before, or in hand.
  void TakeOver(Nanos now, EngineOutput out);
  // False: there was none to compute.
  bool BeginTakeover(Nanos now, Takeover::Step step, Clock clock, EngineOutput out,
                     bool reload = false);

  // The rounds went on without us: goes on from `clock`, which is later. False: that is the end of
  // the run.
  bool FastForward(Clock clock, EngineOutput out);
  // A push, a clock or a pull, to be said again where it may be lost.
  void Say(ShardId shard, wire::Message message, EngineOutput out);
  // After a roster, to shards that another server has now.
  void SayAgain(const wire::Roster& before, EngineOutput out);
  // Asks again, for the clock that the run has come to, where an answer is outstanding.
  void PullAgain(ShardId shard, EngineOutput out);
  void SayEnd(EngineOutput out);
  // Counts what the device left out. False: the scheduler was told, the job is to end, and nothing
  // more of this worker's is to leave.
  bool TakeNotFinite(const DeviceEvent& event, Clock clock, EngineOutput out);
  wire::Message ToScheduler(wire::MessageType type) const;

  std::shared_ptr<const EngineOptions> options_;
  Phase phase_ = Phase::kWaiting;
  Epoch epoch_ = 0;
  std::shared_ptr<const wire::Roster> roster_;
  StepSchedule schedule_;
  uint64_t next_run_ = 1;
  std::optional<ProgramRun> main_;  // what the schedule has said
  Pulls pulls_;                     // of main_
  struct Asked {
    PullWatch watch;  // of main_
    Unanswered unanswered;
  };
  Asked asked_;
  Takeover takeover_;
  struct TeamParts {
    TeamBlocks blocks;
    TeamTakeover takeover;
  };
  TeamParts team_;  // of a worker with a seat
  wire::Progress progress_;
  bool diverged_ = false;
  std::optional<std::string> failure_;
  ReplyLedger replies_;
};

}  // namespace soapstone::worker
