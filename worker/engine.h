// Engine: the worker's actor. Runs step programs: sends pulls, keeps replies until all shards have
// answered, hands device instructions to the device, pushes buckets as they become ready, clocks.
// With a layout by stages it works across the end of a step: a shard is asked for its next values
// as soon as it has its clock, and the next step's forward pass begins with what is here.
//
// Invariants
//  1. Device commands of a program are issued in program order.
//  2. Parameters are replaced only when all shards' replies of one clock are here; until then
//     the parameters of the current clock stay valid, so leaves of a lost worker can be recomputed.
//     By stages they are replaced one after another, and the replies they came from are kept until
//     the last one is: if a leaf is to be recomputed they are loaded again, and the step begins
//     anew.
//  3. On each channel to a shard, the order is: pushes of clock c, clock c+1, pull of c+1.
//  4. No clock at or above the bound it told the scheduler is begun before it is set free.
//  5. Values that are not here `patience_ns` after they were asked for, or twice what answers take
//     lately, are asked for again, each time after twice as long: a read that is repeated is a
//     read, and of two answers the later is dropped.
// Single-threaded; keeps pointers only to shared immutable values. Never blocks, never sleeps.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fingerprint.h"
#include "consistency/levels.h"
#include "consistency/policy.h"
#include "wire/layout.h"
#include "wire/membership/membership.h"
#include "wire/outbox.h"
#include "worker/device.h"
#include "worker/program.h"
#include "worker/readiness.h"
#include "worker/reply_ledger.h"

namespace soapstone::worker {

struct EngineOptions {
  WorkerId id{};
  std::shared_ptr<const wire::Layout> layout;  // decentralised policies: of one shard, the peer
  std::shared_ptr<const std::vector<OpOutline>> ops;
  consistency::PolicyTraits policy;
  uint32_t leaf_count = 1;
  Clock total_clocks = 0;      // local steps of the run
  uint64_t train_samples = 0;  // of the data set
  uint64_t batch = 0;          // samples of a full global batch
  // A gradient that is not finite is left out by the device, and counted; else it ends the job.
  bool skip_not_finite = false;
  Nanos patience_ns = 5 * kSecond;  // with values that were asked for
};

struct EngineOutput {
  wire::Outbox* outbox = nullptr;
  std::vector<DeviceCommand>* commands = nullptr;
};

class Engine {
 public:
  static constexpr wire::TimerId kWatch{2000};
  static constexpr Nanos kPatienceGrowth = 64;  // times patience_ns: the longest between two pulls

  explicit Engine(EngineOptions options);

  // From the network: kRoster, kStart, kPullReply, kReject, kEvaluate. Others are dropped.
  void OnMessage(Nanos now, const wire::Message& message, EngineOutput out);
  void OnDevice(Nanos now, DeviceEvent event, EngineOutput out);
  // At kWatch: asks again for what has not come. It ends nothing: a read may be parked for an hour.
  void OnTimer(Nanos now, EngineOutput out);

  // Finish the step in hand, push it, then tell the scheduler (kLeave).
  void RequestLeave() { leave_requested_ = true; }

  // Cumulative counters for heartbeats and the closing table.
  const wire::Progress& progress() const { return progress_; }
  // The same, with what has been waited for longer than the patience, if there is any.
  wire::Progress ProgressAt(Nanos now) const;
  // Completed local steps.
  Clock clock() const { return clock_; }
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
  // One execution of a program.
  struct Run {
    uint64_t id = 0;
    Clock clock = 0;        // local step: data and learning rate
    Clock shard_clock = 0;  // as shards count: the same, or the exchange's number
    bool final = false;
    Readiness ready;      // of its program's instructions
    bool jumped = false;  // since it began, to a later clock
    uint32_t loads_issued = 0;
    bool loaded = false;    // no pull is outstanding any more
    Nanos idle_since = -1;  // the device waits for values; -1: it does not
    Nanos parked_ns = 0;    // as replies say: the last one's, or the sum of pulls sent in turn
    Nanos queued_ns = 0;
    Buffers keys;                               // that pulls ask for: by shard, then by table
    std::vector<Buffers> replies;               // by shard
    std::vector<Clock> oldest;                  // by shard: min applied clock of its reply
    std::map<uint32_t, DeviceEvent> collected;  // by instruction
    std::vector<uint32_t> pushes;               // sent so far, by shard
    struct Pulled {
      Nanos first = 0;     // when its values were waited for first
      Nanos last = 0;      // and asked for last
      uint32_t asked = 0;  // again
    };
    std::vector<Pulled> pulled;  // by shard

    const Program& program() const { return ready.program(); }
  };

  void OnRoster(Nanos now, const wire::Message& message, EngineOutput out);
  void OnPullReply(Nanos now, const wire::Message& reply, EngineOutput out);
  ProgramInputs Inputs() const;
  void TakeReply(Run* run, ShardId shard, const wire::Message& reply);
  bool HasRowsAskedFor(const Run& run, ShardId shard, const wire::Message& reply) const;
  bool IsSubscribed(const Run& run) const;
  // Nothing is to be sent for the run's pull: the shard sends unasked, or was asked ahead.
  bool IsComing(const Run& run, ShardId shard) const;
  void BeginNext(Nanos now, EngineOutput out);
  void BeginStep(Nanos now, EngineOutput out);
  void Begin(Nanos now, std::shared_ptr<const Program> program, EngineOutput out);
  Run MakeRun(std::shared_ptr<const Program> program);
  // Values are loaded: counts how long the device has waited for them.
  void CountWait(Nanos now, Run* run);
  void NoteLoad(Nanos now, Run* run);
  // By stages: the run begins anew with its first load.
  void Rewind(Run* run);
  // Issues whatever has become ready, in program order; ends finished runs.
  void Advance(Nanos now, EngineOutput out);
  void Issue(Nanos now, Run* run, EngineOutput out);
  void IssueOne(Nanos now, Run* run, uint32_t index, EngineOutput out);
  DeviceCommand CommandFor(const Run& run, uint32_t index) const;
  wire::Message MessageFor(Run* run, uint32_t index);
  void EndRun(Nanos now, EngineOutput out);
  void Leave(EngineOutput out);
  void Finish(EngineOutput out);

  // While shares are being agreed on: binds this worker and says so; afterwards sets it free.
  void KeepBound(EngineOutput out);

  // Fixed-tree policies: takes over leaves of lost workers in the step before, or in hand.
  void TakeOver(Nanos now, EngineOutput out);
  // False: there was none to compute.
  bool BeginTakeover(Nanos now, Clock clock, std::vector<bool>* planned, EngineOutput out,
                     bool reload = false);

  Clock ShardClock(Clock step) const { return step / options_.policy.period; }
  // The clock of a read after `steps` local steps, as who answers it counts.
  Clock ReadClock(Clock steps) const {
    return options_.policy.decentralised() ? steps : options_.policy.Rounds(steps);
  }
  // Who keeps the parameters of `shard`: the shard, or the worker's own peer.
  wire::Address HomeOf(ShardId shard) const {
    if (options_.policy.decentralised()) return wire::Address::PeerOf(options_.id);
    return wire::Address::Of(
        consistency::ShardFor(options_.id, shard, options_.layout->shard_count(), options_.policy));
  }
  // The rounds went on without us: goes on from `clock`, which is later. False: that is the end of
  // the run.
  bool FastForward(Clock clock, EngineOutput out);
  static bool IsOutstanding(const Run& run, ShardId shard);
  // Asks again, for the clock that the run has come to, where an answer is outstanding.
  void PullAgain(Run* run, ShardId shard, EngineOutput out);
  void NotePull(Nanos now, Run* run, ShardId shard, EngineOutput out);
  Nanos PatienceWith(const Run::Pulled& pulled) const;
  bool IsSurplus(const Run& run, const wire::Message& reply);
  void SayEnd(EngineOutput out);
  // Counts what the device left out. False: the scheduler was told, the job is to end, and nothing
  // more of this worker's is to leave.
  bool TakeNotFinite(const DeviceEvent& event, Clock clock, EngineOutput out);
  uint64_t BatchSamples(Clock step) const;
  wire::Message ToScheduler(wire::MessageType type) const;

  EngineOptions options_;
  Phase phase_ = Phase::kWaiting;
  Epoch epoch_ = 0;
  std::shared_ptr<const wire::Roster> roster_;
  Clock latest_start_ = 0;  // of any member
  // Shard clocks from here on are not begun: shares are being agreed on (wire::Roster::share_lead).
  std::optional<Clock> begin_bound_;
  bool held_ = false;                 // a step is due, and at the bound
  Clock clock_ = 0;                   // completed local steps
  Clock start_clock_ = 0;             // first local step of this worker
  bool at_exchange_ = false;          // local steps of the round are done
  Clock round_ = kNoClock;            // kDelta: whose start is loaded
  std::vector<wire::Message> early_;  // subscribed or asked: by shard, values of the step to come
  bool by_stages_ = false;
  std::vector<Clock> asked_;     // by stages: by shard, the clock pulled ahead
  std::vector<Buffers> former_;  // by stages, if leaves may be taken over: what is loaded
  bool leave_requested_ = false;
  uint64_t next_run_ = 1;
  std::optional<Run> main_;
  std::vector<Run> takeovers_;
  std::vector<bool> planned_;         // leaves planned at the clock of main_ (fixed tree)
  std::vector<bool> planned_before_;  // and at the clock before
  std::shared_ptr<const Program> step_program_;  // of step_epoch_
  Epoch step_epoch_ = 0;
  Clock step_shares_from_ = kNoClock;
  bool evaluate_requested_ = false;
  Nanos answer_ns_ = 0;  // that answers took lately, the longest of them
  // By shard: answers that may still come to pulls that the last run repeated, of this clock.
  std::vector<uint32_t> surplus_;
  Clock surplus_clock_ = kNoClock;
  bool watching_ = false;  // kWatch is set
  wire::Progress progress_;
  bool diverged_ = false;
  std::optional<std::string> failure_;
  ReplyLedger replies_;
};

}  // namespace soapstone::worker
