// StepSchedule: which program a worker runs next, and at which clocks: initial pull, steps or local
// steps, exchanges, the flush before it leaves, the final evaluation. It counts the completed local
// steps, keeps the bound that this worker told the scheduler, and builds a step's program once for
// all steps that run under the same shares. The engine asks it what comes next where nothing is in
// hand, and tells it what has ended; it sends nothing.
//
// Invariants
//  1. Clocks only grow, by one a step; FastForward skips steps, to the end of the run at most.
//  2. Where workers keep parameters, an exchange follows every `period` local steps, the last, and
//     that after which it is to leave, if it is no seat; nothing else comes between.
//  3. No step at or above a bound is returned while the bound holds; nor is, of a seat that runs
//     ahead, a clock begun at or above that of an order.
//  4. Before a step of a seat that runs ahead, so many clocks are begun, or all that there are, or
//     may be begun.
//  5. A step's program is that of the newest roster, and of the shares in force at its clock.
// A value: copied with its engine. Keeps the options, which do not change.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "wire/message.h"
#include "worker/engine_options.h"
#include "worker/program/program.h"
#include "worker/program_run.h"

namespace soapstone::worker {

class StepSchedule {
 public:
  explicit StepSchedule(std::shared_ptr<const EngineOptions> options)
      : options_(std::move(options)) {}

  // The scheduler's kStart.
  void Start(Clock clock);
  // Every new roster, before Next is asked under it.
  void OnRoster(const wire::Roster& roster);
  // Shares are being agreed on: the first shard clock that is not begun before a roster says that
  // they are. The bound that was told stays. REQUIRES: roster.share_lead > 0.
  Clock Bind(const wire::Roster& roster);
  // The scheduler's order: no clock of shards is begun from `clock` on, or where that is begun
  // already, none that is not. `asked`: the first whose values were not asked for. Takes the place
  // of orders of lesser numbers. Returns the first clock that is not begun; none: a later order has
  // come before. Of a number that is there it changes nothing.
  std::optional<Clock> BindBy(uint32_t number, Clock clock, Clock asked = 0);
  // By the order: values of clocks from there on are not asked for either.
  Clock bound() const { return bounds_.by_order; }
  // True, once, where a step was held at a bound that holds no more: Next has it.
  bool TakeReleased();
  // Finish the step in hand, and what it takes to push it, then nothing more.
  void RequestLeave() { leave_requested_ = true; }

  // What to run now. Null: all is done, or a step is held.
  std::shared_ptr<const Program> Next(const wire::Roster& roster, Epoch epoch);
  std::shared_ptr<const Program> FinalEvaluation() const;
  // Of a seat: the next batch of held-out samples. Null: there is none.
  std::shared_ptr<const Program> NextEvaluation() const;
  // When a run of that kind is that begins now.
  ProgramRun::Clocks ClocksOf(Program::Kind kind) const;
  // A run of that kind has ended.
  void OnEnd(Program::Kind kind);
  // The others went on without us: the next step is of `clock`, which is later. Returns how many
  // steps are not made because of that.
  uint64_t FastForward(Clock clock);

  // Completed local steps.
  Clock clock() const { return clock_; }
  // The same as shards count them.
  Clock shard_clock() const { return options_->ShardClock(clock_); }
  // Of the next step; behind the last one's, of the next batch that is evaluated.
  Clock next_clock() const { return clock_ + evaluated_; }
  // Some step of this worker is completed.
  bool has_stepped() const { return clock_ > start_clock_; }
  // A step of that clock is this worker's first.
  bool IsFirst(Clock step) const { return step <= start_clock_; }
  // All local steps are made, and exchanged.
  bool finished() const { return !at_exchange_ && clock_ >= options_->total_clocks; }
  // The next step is not to be begun now.
  bool at_bound() const {
    return (bounds_.by_shares.has_value() && shard_clock() >= *bounds_.by_shares) ||
           shard_clock() >= bounds_.by_order;
  }
  // A step is due, and at the bound.
  bool held() const { return held_; }

  void AddTo(Fingerprint* f) const;

 private:
  std::shared_ptr<const Program> NextStep(const wire::Roster& roster, Epoch epoch);
  Program BuildStepUnder(const wire::Roster& roster) const;
  Program BuildStepOfSeat() const;
  // Clocks from here on are not begun, those of the order included.
  Clock End() const { return std::min(options_->total_clocks, bounds_.by_order); }
  // Clocks from clock_ on that a seat has begun before its step.
  Clock Ahead() const { return std::min(options_->lead(), End() - clock_); }
  // The next step has forward halves, of the clock that is so much later.
  bool RunsForward() const { return clock_ + options_->lead() < End(); }
  bool NeedsValues() const;

  std::shared_ptr<const EngineOptions> options_;
  Clock clock_ = 0;      // completed local steps
  Clock evaluated_ = 0;  // batches of held-out samples
  struct Begun {
    Clock clocks = 0;       // from clock_ on whose forward halves a seat has run
    bool one_more = false;  // what is in hand begins it
  };
  Begun begun_;
  Clock start_clock_ = 0;     // first local step of this worker
  bool at_exchange_ = false;  // local steps of the round are done
  Clock round_ = kNoClock;    // of the last initial pull: whose start is loaded
  Clock latest_start_ = 0;    // of any member
  // Shard clocks that are not begun, from there on.
  struct Bounds {
    std::optional<Clock> by_shares;  // while they change
    Clock by_order = kClockMax;      // of the scheduler
    uint32_t number = 0;             // of that order
  };
  Bounds bounds_;
  bool held_ = false;
  bool leave_requested_ = false;
  std::shared_ptr<const Program> step_;  // of step_epoch_
  Epoch step_epoch_ = 0;
  Clock step_shares_from_ = kNoClock;
  // Of a seat, whose steps are made for a size; and of the clock that it runs ahead, 0: of none.
  std::pair<uint64_t, uint64_t> step_samples_;
};

}  // namespace soapstone::worker
