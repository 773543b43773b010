// TeamBlocks: what other seats of its team have sent a worker that its programs have not taken yet.
// The engine keeps here what comes, whatever clock it is at, and takes out what an instruction asks
// for; it sends nothing.
//
// Invariants
//  1. Of each (clock, team, number) at most one is kept, of those of the present clock, of as many
//     as a seat may run ahead, and of the next: nobody in the team is further ahead, since a seat
//     hears of each other one that it sends to once a clock (SeatOutline::awaited, or a block). Of
//     what is taken over for a lost team also of clocks before, as long as they are wanted.
//  2. What is kept is of the size that the section expects, from the seat that it expects it of,
//  and
//     not of an epoch before the team's admission: a former team's seats had the same ranks.
// A value: copied with its engine. Keeps the options, which do not change.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "base/memory/buffer.h"
#include "wire/message.h"
#include "worker/engine_options.h"

namespace soapstone::worker {

class TeamBlocks {
 public:
  explicit TeamBlocks(std::shared_ptr<const EngineOptions> options)
      : options_(std::move(options)) {}

  // `now`: the clock of the next step. begun: where a seat has not, it does not know at which clock
  // it will: another of its team that has may be at any. False: it is foreign, of another size, too
  // late, too early or here already, and not kept.
  bool Keep(const wire::Message& message, Clock now, bool begun = true);
  // The roster of this epoch has admitted the worker, and its team.
  void OnAdmitted(Epoch epoch);
  // taken_over: a lost team's micro-batches; empty: the worker's own team's.
  bool IsHere(Clock clock, uint32_t number, MicroBatchRange taken_over = {}) const {
    return blocks_.contains({clock, TeamOf(taken_over), number});
  }
  // REQUIRES: IsHere.
  Buffer Take(Clock clock, uint32_t number, MicroBatchRange taken_over = {});
  // What is left of clocks below is not wanted any more; nor, of what is taken over, of those below
  // `taken_over`, which only grows.
  void DropBefore(Clock clock, Clock taken_over = kClockMax);

  // The device has nothing to do until the block is here; it has one to take.
  void OnWaiting(Nanos now, Clock clock, uint32_t number) {
    wait_ = Wait{.since = now, .clock = clock, .number = number};
  }
  void OnTaken() { wait_.reset(); }
  // The block that the device waits for, where that is longer than the patience.
  std::optional<wire::Waiting> WaitsFor(Nanos now) const;

  void AddTo(Fingerprint* f) const;

 private:
  struct Wait {
    Nanos since = 0;
    Clock clock = 0;
    uint32_t number = 0;
  };
  bool IsTooEarly(Clock clock, Clock now, bool begun) const;
  void DropFormer(Clock clock, Epoch epoch);
  WorkerId WorkerOf(const SeatOutline::Block& block) const;
  uint32_t TeamOf(MicroBatchRange taken_over) const;
  // Whose micro-batches the message is of; none: nobody's that this worker computes.
  std::optional<uint32_t> TeamOf(const wire::Message& message) const;

  std::shared_ptr<const EngineOptions> options_;
  struct Kept {
    Buffer block;
    Epoch epoch = 0;
  };
  std::map<std::tuple<Clock, uint32_t, uint32_t>, Kept> blocks_;  // by clock, team, number
  Clock taken_over_from_ = 0;
  Epoch admitted_ = 0;  // 0: not yet
  std::optional<Wait> wait_;
};

}  // namespace soapstone::worker
