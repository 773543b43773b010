// The Engine's part in what others owed: micro-batches of lost workers, and of lost teams.
#include <utility>

#include "wire/membership/teams.h"
#include "worker/engine.h"

namespace soapstone::worker {

using wire::Address;
using wire::Message;
using wire::MessageType;

void Engine::TakeOver(Nanos now, EngineOutput out) {
  const auto runs = [&](Program::Kind kind) {
    return main_.has_value() && main_->program().kind == kind;
  };
  const bool stepping = phase_ == Phase::kRunning && runs(Program::Kind::kStep);
  const bool flushing = runs(Program::Kind::kFlush);
  const bool ended = phase_ == Phase::kDone && (!main_.has_value() || !pulls_.loaded());
  if (stepping && pulls_.loaded()) {
    BeginTakeover(now, Takeover::Step::kThis, main_->clock(), out);
  } else if (stepping && !schedule_.IsFirst(main_->clock())) {
    // Waiting for the next version: the step before may lack micro-batches, and its parameters are
    // here.
    const bool mixed = pulls_.mixed();
    const Clock before = main_->clock() - 1;
    if (BeginTakeover(now, Takeover::Step::kBefore, before, out, mixed) && mixed) {
      // What the device was given of the step are loads, and forward passes between them; its
      // answers to that are nobody's.
      main_->Rewind(next_run_++);
      pulls_.Rewind();
      Advance(now, out);
    }
  } else if (schedule_.has_stepped() && (flushing || ended || schedule_.held())) {
    BeginTakeover(now, Takeover::Step::kThis, schedule_.clock() - 1, out);
  }
}

bool Engine::BeginTakeover(Nanos now, Takeover::Step step, Clock clock, EngineOutput out,
                           bool reload) {
  ProgramRun* run = takeover_.Begin(*roster_, step, clock, next_run_, reload);
  if (run == nullptr) return false;
  ++next_run_;
  Issue(now, run, out);
  return true;
}

// The word is said as soon as the roster is here, whatever the seat is doing.
void Engine::OnRosterOfTeam(Nanos now, EngineOutput out) {
  if (phase_ == Phase::kLeft) return;
  const bool held = HoldsLoads();
  const std::optional<Clock> loaded = team_.takeover.OnRoster(*roster_, epoch_);
  if (!loaded.has_value()) return;
  const wire::TeamShape& team = options_->seat->team;
  for (uint32_t seat = 0; seat < team.seats; ++seat) {
    const WorkerId other = wire::WorkerAt(WorkerId{options_->team()}, seat, team);
    if (other == options_->id) continue;
    Message word = ToScheduler(MessageType::kLoaded);
    word.to = Address::Of(other);
    word.clock = *loaded;
    out.outbox->Send(std::move(word));
  }
  GoOnIfAgreed(now, held, out);
}

void Engine::OnLoaded(Nanos now, const Message& message, EngineOutput out) {
  if (!options_->team_takes_over()) return;
  const wire::TeamShape& team = options_->seat->team;
  const WorkerId from{message.from.index};
  const bool held = HoldsLoads();
  if (message.from != Address::Of(from) || from == options_->id ||
      Index(wire::TeamOf(from, team)) != options_->team() ||
      !team_.takeover.OnWord(wire::SeatOf(from, team), message.epoch, message.clock)) {
    ++progress_.rejects;
    return;
  }
  GoOnIfAgreed(now, held, out);
}

void Engine::GoOnIfAgreed(Nanos now, bool held, EngineOutput out) {
  if (HoldsLoads()) return;
  AdvanceTakeover(now, out);
  if (!held) return;
  for (const Message& reply : team_.takeover.TakeDeferred()) OnPullReply(now, reply, out);
  TakeEarlyValues(now, out);
  if (phase_ == Phase::kRunning && !main_.has_value()) BeginNext(now, out);
}

// What came before it was asked for, and might not be loaded then.
void Engine::TakeEarlyValues(Nanos now, EngineOutput out) {
  if (!main_.has_value()) return;
  for (uint32_t k = 0; k < options_->layout->shard_count(); ++k) {
    const ShardId shard{k};
    if (!main_->IsOutstanding(shard)) continue;
    if (!pulls_.TakeEarly(shard, main_->read_clock(), &progress_)) continue;
    asked_.watch.OnAnswered(now, shard);
    main_->Answer(shard);
  }
  Advance(now, out);
}

void Engine::AdvanceTakeover(Nanos now, EngineOutput out) {
  do {
    for (ProgramRun* run : team_.takeover.runs()) Issue(now, run, out);
    team_.takeover.DropCompleted();
  } while (team_.takeover.Begin(&next_run_));
}

}  // namespace soapstone::worker
