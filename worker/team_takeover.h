// TeamTakeover: the micro-batches of lost teams that this seat's team takes over, in policies whose
// rounds wait for all of them (PolicyTraits::takes_over). For each team and clock that is taken
// over the seat runs its section once more, beside its own steps, and pushes what comes of it in
// the lost team's place. The engine tells it rosters, words and loads, and issues the runs that it
// begins.
//
// All seats of a team must take over the same: one that does not would leave the others waiting for
// its blocks. But they take a roster at different clocks, which are one apart at most. So at each
// roster a seat tells the others the newest clock that it has loaded, and loads nothing more until
// it has heard the same of all of them. Then a roster is in force, for the whole team,
//
//     from min_k loaded_k(roster)  to  max_k loaded_k(next roster)
//
// and what is taken over at a clock is what any roster says that is in force there. (A seat without
// parameters waits for no shard, and may be further ahead. It needs none to take over a clock.) No
// clock before that minimum lacks anything: who has loaded clock c has had every update of those
// before from each shard that it holds, and a team's seats hold them all. What is taken over though
// it was there is dropped by the shards, as any second copy is.
//
// Invariants
//  1. Of a team and clock one run is made, with the parameters of that clock: they are kept, of the
//     newest that is loaded and the one before, and as long as a run wants them.
//  2. Runs of one lost team go one after another, by clock; of different ones side by side.
//  3. Words are kept of epochs since the team's admission alone, of kWordsMax at most.
// A value: copied with its engine. Keeps the options, which do not change.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "base/memory/buffer.h"
#include "wire/message.h"
#include "worker/engine_options.h"
#include "worker/program/program.h"
#include "worker/program_run.h"

namespace soapstone::worker {

class TeamTakeover {
 public:
  static constexpr size_t kWordsMax = 64;

  explicit TeamTakeover(std::shared_ptr<const EngineOptions> options)
      : options_(std::move(options)) {}

  // A new roster. Returns what the other seats are to be told; none: the team is not in it.
  std::optional<Clock> OnRoster(const wire::Roster& roster, Epoch epoch);
  // What a seat of the team has loaded as it took the roster of that epoch. False: it is foreign,
  // or said already, and not kept.
  bool OnWord(uint32_t seat, Epoch epoch, Clock loaded);
  // Nothing may be loaded: the word of some seat is not here.
  bool holds() const { return !pending_.empty(); }
  // Values that came meanwhile, of each shard the latest.
  void Defer(ShardId shard, wire::Message reply) { deferred_[shard] = std::move(reply); }
  std::vector<wire::Message> TakeDeferred();

  // A step has loaded these, by shard. REQUIRES: !holds(), a later clock each time.
  void OnLoad(Clock clock, std::vector<Buffers> values);
  // By shard; of a seat that holds no parameters none.
  std::vector<Buffers> ValuesOf(Clock clock) const;

  // Begins the runs that are due, with ids from *next_run on. False: there are none.
  bool Begin(uint64_t* next_run);
  // Null: there is none.
  ProgramRun* Find(uint64_t id);
  ProgramRun* FindOf(MicroBatchRange taken_over);
  std::vector<ProgramRun*> runs();
  void DropCompleted();
  // Blocks for what is taken over are of no clock before.
  Clock first_wanted() const;

  void AddTo(Fingerprint* f) const;

 private:
  struct Pending {
    Epoch epoch = 0;
    wire::Roster teams;
    Clock loaded = kNoClock;  // by this seat
  };
  struct InForce {
    wire::Roster teams;
    Clock until = kClockMax;
  };
  struct Lane {  // of a lost team
    std::vector<Clock> due;
    std::optional<ProgramRun> run;
    std::shared_ptr<const Program> program;  // of steps of so many samples
    uint64_t samples = 0;
  };
  void Agree();
  void Plan(const wire::Roster& teams, Clock clock);
  // The earliest clock that can be taken over: its parameters are here.
  Clock first_kept() const;
  // The earliest that may have to be.
  Clock first_open() const;
  void DropValues();

  std::shared_ptr<const EngineOptions> options_;
  Epoch admitted_ = 0;
  Clock loaded_ = kNoClock;
  std::map<Clock, std::vector<Buffers>> values_;  // by shard
  std::vector<Pending> pending_;                  // by epoch
  Epoch agreed_ = 0;                              // of the last that came into force
  std::map<Epoch, std::map<uint32_t, Clock>> words_;
  std::vector<InForce> in_force_;
  std::set<std::pair<Clock, uint32_t>> planned_;  // with the team
  std::map<uint32_t, Lane> lanes_;
  std::map<ShardId, wire::Message> deferred_;
};

}  // namespace soapstone::worker
