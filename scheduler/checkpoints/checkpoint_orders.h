// CheckpointOrders: when shards are captured for a checkpoint, and when one is whole. A value of
// the scheduler's shell beside the coordinator: what is written changes nothing of the training.
//
//   scheduler -> workers     Bound C, where the cut is to be an aligned one (begin_bound.h)
//   scheduler -> shards      Checkpoint C: a clock that none has come to, as far as is known
//   shard -> scheduler       Captured C; the workers are set free when all have said it
//   shard -> scheduler       Written C: its part is on the disk; it failed; or it comes too late,
//                            with the clock that the shard has come to
//   all written              the shell commits it, and says so here; then the next is ordered
//
// Where a round is its own marker (bsp) checkpoints need no bound, and nobody waits. An end with a
// checkpoint has one under every policy: at the first clock that nobody has begun, and the workers
// stay there.
//
// Invariants
//  1. One checkpoint at a time: a slow disk makes fewer of them, and no queue.
//  2. An order that comes too late for one shard is given up, and the next has a longer lead.
//  3. What comes of an order that was given up, or of another run, changes nothing.
//  4. Of an aligned cut shards hear when all members are bound at its clock; where one that joins
//     turns out not to be, it is given up.
//  5. What fails of an end is tried again when all shards have said what became of it: what they
//  say
//     then is of the next try.
//  6. Nobody is bound for longer than `patience_ns` after the first of two steps of a cut: all have
//     answered, or all shards are captured. But of an end: until its owner gives it up.
//  7. Where a shard goes on at another server while shards are captured, that is given up: what the
//     former one has written of it, nobody says.
// A value: no I/O, no clock; times are handed in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "scheduler/checkpoints/begin_bound.h"
#include "wire/message.h"
#include "wire/outbox.h"

namespace soapstone::scheduler {

struct CheckpointOptions {
  Clock every = 1;  // clocks; checkpoints are of its multiples
  Clock first = 0;  // the run begins there
  Clock end = 0;    // and ends there: none is taken then, nor later
  std::vector<ShardId> shards;
  // From the first answer to an order to the last.
  Nanos patience_ns = 600 * kSecond;
  bool aligned = false;  // the updates of a clock are not held back until all are there
};

class CheckpointOrders {
 public:
  explicit CheckpointOrders(CheckpointOptions options)
      : options_(std::move(options)),
        newest_(options_.first),
        bound_({.end = options_.end}),
        last_committed_(options_.first) {}

  struct Part {
    uint64_t bytes = 0;
    std::vector<uint64_t> blocks;  // checksums
  };
  // All parts of one are written.
  struct Whole {
    Clock clock = 0;
    std::map<ShardId, Part> parts;
  };

  // While the workers step, now and then, and after each of the messages below. `newest`: the
  // greatest clock that is known of a worker.
  void Look(Nanos now, Clock newest, const wire::Roster& roster, wire::Outbox* out);
  // The workers have done their last step: no more of them.
  void Stop() { stopped_ = true; }
  // kBounded of a worker, kCaptured and kWritten of a shard; others change nothing.
  void OnMessage(Nanos now, const wire::Message& message);

  // A checkpoint as soon as may be, and the workers stay at its clock. What fails is tried again.
  void End();
  // An end is under way, or written. Not where some have begun the last clock: the job ends anyway.
  bool ending() const { return ending_; }
  // The clock that all stay at, whose checkpoint is committed; or at which the run began.
  std::optional<Clock> ended_at() const { return ended_at_; }
  // The workers go on, those that are bound too.
  void GiveUpEnd();

  // Once a checkpoint; OnCommitted is to follow.
  std::optional<Whole> TakeWhole();
  void OnCommitted(Nanos now, Clock clock, const std::string& error);

  // Those that were given up since the last call: what is written of them is for nothing.
  std::vector<Clock> TakeGivenUp() { return std::exchange(given_up_, {}); }

  bool committing() const { return stage_ == Stage::kCommitting; }
  uint64_t committed() const { return committed_; }
  uint64_t failed() const { return failed_; }
  const BeginBound& bound() const { return bound_; }
  // All that decides later behaviour, times and lines for the user excepted.
  void AddTo(Fingerprint* f) const;
  // Lines for the user since the last call.
  std::vector<std::string> TakeNews() { return std::exchange(news_, {}); }

 private:
  enum class Stage : uint8_t {
    kIdle,
    kBinding,     // workers, at clock_ or later
    kCapturing,   // shards, at clock_
    kCommitting,  // all parts are written
  };
  // What is next, where nothing is under way.
  void BeginNext(Nanos now);
  // Where all are bound the shards are told.
  void LookAtBound(Nanos now, const wire::Roster& roster, wire::Outbox* out);
  void Capture(Nanos now, Clock clock, wire::Outbox* out);
  void OnCaptured(Nanos now, ShardId shard);
  void OnWritten(Nanos now, ShardId shard, const wire::Message& message);
  void OnUnwritten(Nanos now, ShardId shard, const std::string& why);
  void Fail(Nanos now, const std::string& why);
  void GiveUp();
  bool binds() const { return options_.aligned || ending_; }
  void LookAtHeads(const wire::Roster& roster);
  Clock NextClock() const;

  CheckpointOptions options_;
  Clock newest_;    // that is known of any worker or shard
  Clock lead_ = 0;  // clocks beyond it that an order takes to be heard
  BeginBound bound_;
  Stage stage_ = Stage::kIdle;
  Clock clock_ = 0;                   // of what is under way
  bool under_bound_ = false;          // shards were told where all workers were bound
  std::optional<Nanos> waits_since_;  // for the rest of those who are to answer
  SharedList<wire::Chain> chains_;    // of the last look
  std::set<ShardId> captured_;
  std::set<ShardId> unwritten_;  // that have said so, of an end
  std::string why_unwritten_;
  std::map<ShardId, Part> parts_;
  bool stopped_ = false;
  bool ending_ = false;
  std::optional<Clock> ended_at_;
  Clock last_committed_;  // or where the run began
  std::optional<Nanos> failed_at_;
  bool said_failed_ = false;  // of the last ones; once until one is written again
  uint64_t committed_ = 0;
  uint64_t failed_ = 0;
  std::vector<Clock> given_up_;
  std::vector<std::string> news_;
};

}  // namespace soapstone::scheduler
