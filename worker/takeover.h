// Takeover: the micro-batches of lost workers that this worker takes over: it recomputes and pushes
// them, in the step in hand or in the one before, so that every micro-batch of every clock gets in.
// For policies whose rounds wait for all of them (PolicyTraits::takes_over). The engine tells it
// what each step has planned, asks it at every new roster, and issues the runs that it begins.
//
// Invariants
//  1. A micro-batch of a clock is planned once by this worker: what its step or a run of this class
//     has planned is not taken over again.
//  2. A run computes on the parameters of its own clock: those that are loaded, or, where the
//     device has begun to load others, those that were kept and are loaded again first.
//  3. Runs stand in the order in which they began, each until it is complete.
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
#include "worker/program/program.h"
#include "worker/program_run.h"

namespace soapstone::worker {

class Takeover {
 public:
  // Relative to the newest step that was begun.
  enum class Step : uint8_t { kThis, kBefore };

  explicit Takeover(std::shared_ptr<const EngineOptions> options) : options_(std::move(options)) {}

  // The worker begins a step of this program.
  void OnStep(const Program& step);
  // What the newest step has loaded, by shard: for runs that must load it again.
  void Keep(std::vector<Buffers> values) { values_ = std::move(values); }
  // No step comes any more: nothing need be loaded again.
  void DropValues() { values_.clear(); }
  // Every update is in, and the device has other parameters: nothing more is taken over.
  void Close() { planned_.clear(); }

  // Begins a run of those micro-batches of `clock`, the step's, that are this worker's under
  // `roster` and are not planned; they are now. Null: there are none. `reload`: the device has
  // begun to load other parameters. Valid until the next Begin or DropCompleted.
  ProgramRun* Begin(const wire::Roster& roster, Step step, Clock clock, uint64_t id, bool reload);

  // The run of that id; null: there is none.
  ProgramRun* Find(uint64_t id);
  std::vector<ProgramRun>& runs() { return runs_; }
  void DropCompleted();

  // What a run that loads again loads.
  const std::vector<Buffers>& values() const { return values_; }

  void AddTo(Fingerprint* f) const;

 private:
  std::shared_ptr<const EngineOptions> options_;
  std::vector<bool> planned_;         // by micro-batch: at the newest step
  std::vector<bool> planned_before_;  // and at the step before
  std::vector<Buffers> values_;       // by shard; by transfer stages only
  std::vector<ProgramRun> runs_;
};

}  // namespace soapstone::worker
