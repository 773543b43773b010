// CheckpointOrders: when shards are captured for a checkpoint, and when one is whole. A value of
// the scheduler's shell beside the coordinator: what is written changes nothing of the training.
//
//   scheduler -> shards      Checkpoint C: a clock that none has come to, as far as is known
//   shard -> scheduler       Written C: its part is on the disk; or it failed; or too late, with
//   the
//                            clock that the shard has come to
//   all written              the shell commits it, and says so here; then the next is ordered
//
// Invariants
//  1. One checkpoint at a time: a slow disk makes fewer of them, and no queue.
//  2. An order that comes too late for one shard is given up, and the next has a longer lead.
//  3. What comes of an order that was given up, or of another run, changes nothing.
// A value: no I/O, no clock; times are handed in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
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
};

class CheckpointOrders {
 public:
  explicit CheckpointOrders(CheckpointOptions options)
      : options_(std::move(options)), newest_(options_.first) {}

  struct Part {
    uint64_t bytes = 0;
    std::vector<uint64_t> blocks;  // checksums
  };
  // All parts of one are written.
  struct Whole {
    Clock clock = 0;
    std::map<ShardId, Part> parts;
  };

  // While the workers step, now and then. `newest`: the greatest clock that is known of a worker.
  void Look(Nanos now, Clock newest, wire::Outbox* out);
  // No more of them.
  void Stop() { stopped_ = true; }
  void OnWritten(Nanos now, const wire::Message& message);
  // Once a checkpoint; OnCommitted is to follow.
  std::optional<Whole> TakeWhole();
  void OnCommitted(Clock clock, const std::string& error);

  // Those that were given up since the last call: what is written of them is for nothing.
  std::vector<Clock> TakeGivenUp() { return std::exchange(given_up_, {}); }

  bool committing() const { return committing_; }
  uint64_t committed() const { return committed_; }
  uint64_t failed() const { return failed_; }
  // Lines for the user since the last call.
  std::vector<std::string> TakeNews() { return std::exchange(news_, {}); }

 private:
  void Fail(const std::string& why);
  void GiveUp();
  Clock NextClock() const;

  CheckpointOptions options_;
  Clock newest_;                  // that is known of any worker or shard
  Clock lead_ = 0;                // clocks beyond it that an order takes to be heard
  std::optional<Clock> ordered_;  // and not committed or given up
  std::map<ShardId, Part> parts_;
  std::optional<Nanos> answered_at_;  // first
  bool committing_ = false;
  bool stopped_ = false;
  bool said_failed_ = false;  // of the last ones; once until one is written again
  uint64_t committed_ = 0;
  uint64_t failed_ = 0;
  std::vector<Clock> given_up_;
  std::vector<std::string> news_;
};

}  // namespace soapstone::scheduler
