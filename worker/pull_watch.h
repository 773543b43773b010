// PullWatch: since when the values of each shard have been waited for, when they are asked for
// again, and which answers may come once too often because of that. It ends nothing: a read may be
// parked for an hour, a read that is repeated is a read, and of two answers the later is dropped.
// The engine calls it where a pull is due, where an answer comes, and at its one timer; it sends
// nothing itself.
//
// Invariants
//  1. One timer at a time is set, and none is moved at each pull: setting it costs a loop its
//     deadline.
//  2. Values are asked for again `patience_ns` after they were asked for, or twice what answers
//  take
//     lately where that is more, and each time after twice as long, up to kGrowth * patience_ns.
//  3. An answer is held to be surplus at most as often as the run before has repeated its pull.
// A value: copied with its engine.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "wire/message.h"
#include "worker/program_run.h"

namespace soapstone::worker {

class PullWatch {
 public:
  static constexpr Nanos kGrowth = 64;  // times patience_ns: the longest between two pulls

  PullWatch(Nanos patience_ns, uint32_t shards) : patience_ns_(patience_ns), asked_(shards) {}

  void OnRunBegun();
  // It has ended at `clock`, as shards count. Not called for a run that is given up.
  void OnRunEnded(Clock clock);
  // The run's values of `shard` are waited for, and asked for. Returns when the timer is to be set
  // to; none: it is set.
  std::optional<Nanos> OnAsked(Nanos now, ShardId shard);
  void OnAnswered(Nanos now, ShardId shard);

  struct Repeats {
    std::vector<ShardId> shards;  // to ask again, ascending
    std::optional<Nanos> timer;   // where it is to be set to; none: nothing is waited for
  };
  // The timer was due; null: no run is in hand. What it returns counts as asked again.
  Repeats OnTimer(Nanos now, const ProgramRun* run);

  struct Wait {
    ShardId shard{};
    Nanos for_ns = 0;
    uint32_t asked = 0;  // again, so often
  };
  // Of what the run waits for longer than the patience, the longest.
  std::optional<Wait> Longest(Nanos now, const ProgramRun& run) const;

  // Under the elastic rule the first exchange's values have the clock of those before the first
  // step: answers to what was asked for again then must not pass for them. Counts it, if so.
  bool TakeSurplus(const ProgramRun& run, ShardId shard, const wire::Message& reply);

  void AddTo(Fingerprint* f) const;

 private:
  struct Asked {
    Nanos first = 0;     // when its values were waited for first
    Nanos last = 0;      // and asked for last
    uint32_t again = 0;  // so often
  };

  // Until it is asked for again.
  Nanos PatienceWith(const Asked& asked) const;

  Nanos patience_ns_;
  std::vector<Asked> asked_;        // by shard, of the run in hand
  Nanos answer_ns_ = 0;             // that answers took lately, the longest of them
  bool timer_set_ = false;          // and not due yet
  std::vector<uint32_t> surplus_;   // by shard: answers that may still come to the last run's pulls
  Clock surplus_clock_ = kNoClock;  // which it had repeated, of this clock
};

}  // namespace soapstone::worker
