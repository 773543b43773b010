// Pulls: the parameters' values on their way from the shards to the device: asked ahead, early,
// answered, loaded; and how long the device waits for them. The engine calls it where a pull is
// due, where an answer comes, and where the device is given a load; it sends nothing itself. At
// most one run pulls at a time, the one that Begin and End stand around.
//
// Invariants
//  1. Values are kept from their answer until the run's last load is issued: until then all of them
//     can be loaded once more (Rewind).
//  2. Only values of the clock that comes next are kept early, and only where nobody need ask for
//     them any more: the shard sends unasked, or was asked ahead. They are taken once.
//  3. Fresher values take the place of those that are not loaded, never staler ones.
//  4. Of a wait no more is said to be parked and queued than was waited.
// A value: copied with its engine. Keeps the options, which do not change.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "base/memory/buffer.h"
#include "wire/message.h"
#include "worker/engine_options.h"
#include "worker/program_run.h"

namespace soapstone::worker {

class Pulls {
 public:
  explicit Pulls(std::shared_ptr<const EngineOptions> options);

  // A run begins, and from `now` on the device waits for it. `unasked`: the shards send its values
  // without being asked.
  void Begin(Nanos now, bool unasked);
  // It has ended, or is given up: nothing of it is kept but what is for the run to come.
  void End();

  // The pull of a shard is due.
  void OnDue(Nanos now);
  // Nothing is to be sent for it: the shard sends unasked, or was asked ahead.
  bool IsComing(const ProgramRun& run, ShardId shard) const;
  // Its values of `clock` came before it was due, and are the run's now. False: they did not.
  bool TakeEarly(ShardId shard, Clock clock, wire::Progress* progress);
  // The shard was asked for the values of `clock`, which is not begun.
  void OnAskedAhead(ShardId shard, Clock clock);
  // The latest clock that it was done for; kNoClock: none.
  Clock asked_ahead() const;

  // Keeps an answer for `next`, the clock to come, where nobody will ask for it. False: it is not
  // one.
  bool KeepEarly(ShardId shard, Clock next, const wire::Message& reply);
  // The answer to the run's pull: its values are the run's now.
  void Take(ShardId shard, const wire::Message& reply, wire::Progress* progress);
  // An answer that came unasked after the run's, and may take its place.
  bool IsFresher(ShardId shard, const wire::Message& reply) const;
  // The rows that it holds are those of the keys that the run has asked for.
  bool HasRowsAskedFor(const ProgramRun& run, ShardId shard, const wire::Message& reply) const;

  // What a load is given: by shard, or one shard's alone.
  const std::vector<Buffers>& values() const { return values_; }
  std::vector<Buffers> ValuesOf(ShardId shard) const;
  // The device is idle until its next load.
  void OnIdle(Nanos now) { idle_since_ = now; }
  // The device is given a load. True: it was the last, and the values are due to be taken, or to be
  // dropped.
  bool OnLoad(Nanos now, const ProgramRun& run, wire::Progress* progress);
  std::vector<Buffers> TakeValues();
  void DropValues();
  // The device begins anew with the run's first load. REQUIRES: not loaded.
  void Rewind();

  // All of the run's values are loaded: no pull is outstanding any more.
  bool loaded() const { return loaded_; }
  // Some are loaded: the device's parameters are of no single clock.
  bool mixed() const { return loads_ > 0 && !loaded_; }

  void AddTo(Fingerprint* f) const;

 private:
  void CountWait(Nanos now, wire::Progress* progress);

  std::shared_ptr<const EngineOptions> options_;
  std::vector<wire::Message> early_;  // by shard: values of the clock to come
  std::vector<Clock> ahead_;          // by shard: the clock asked for ahead
  // Of the run in hand.
  bool unasked_ = false;
  std::vector<Buffers> values_;  // by shard: as it has answered
  std::vector<Clock> oldest_;    // by shard: min applied clock of its answer
  uint32_t loads_ = 0;           // issued
  bool loaded_ = false;
  Nanos idle_since_ = -1;  // the device waits for values; -1: it does not
  Nanos parked_ns_ = 0;    // as answers say: the last one's, or the sum of pulls sent in turn
  Nanos queued_ns_ = 0;
};

}  // namespace soapstone::worker
