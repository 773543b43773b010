#include "sim/team/team_process.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "wire/membership/teams.h"

namespace soapstone::sim {

using worker::SeatOutline;

void TeamProcess::Begin(const cluster::TrainingJob& job, TeamMutant mutant) {
  options = std::make_shared<const worker::EngineOptions>(EngineOptionsWith(mutant, job, rank));
  engine.emplace(*options);
  const Clock lanes = mutant == TeamMutant::kNoStash ? 1 : options->lead() + 1;
  loaded.assign(static_cast<size_t>(lanes), kNoClock);
}

void TeamProcess::Stop() {
  gone = true;
  engine.reset();
  commands.clear();
}

TeamProcess::Outcome TeamProcess::RunDevice(const cluster::TrainingJob& job, TeamMutant mutant) {
  Outcome outcome;
  while (!commands.empty() && !outcome.event.has_value() && !outcome.violation.has_value()) {
    const worker::DeviceCommand command = std::move(commands.front());
    commands.erase(commands.begin());
    worker::DeviceEvent made = {.run = command.run, .instruction = command.instruction};
    outcome.violation = Carry(job, mutant, command, &made);
    if (command.wants_event) outcome.event = std::move(made);
  }
  return outcome;
}

Clock TeamProcess::RoundOf(const cluster::TrainingJob& job, Clock clock) const {
  return clock < job.total_clocks ? options->ShardClock(clock) : job.total_clocks;
}

Clock& TeamProcess::LoadedFor(const cluster::TrainingJob& job,
                              const worker::DeviceCommand& command) {
  if (!command.taken_over.empty()) {
    return loaded_for.try_emplace(TeamOf(job, command), kNoClock).first->second;
  }
  if (command.clock >= job.total_clocks) return loaded.front();
  return loaded[static_cast<size_t>(command.clock) % loaded.size()];
}

uint32_t TeamProcess::TeamOf(const cluster::TrainingJob& job,
                             const worker::DeviceCommand& command) const {
  const wire::TeamShape& shape = job.team->shape;
  if (command.taken_over.empty()) return Index(wire::TeamOf(rank, shape));
  return command.taken_over.begin / (job.micro_batches / shape.teams);
}

const SeatOutline& TeamProcess::OutlineOf(const cluster::TrainingJob& job,
                                          const worker::DeviceCommand& command) const {
  if (command.clock >= job.total_clocks) return *options->SeatOutlineAt(command.clock);
  return *options->SeatOutlineOf(TeamOf(job, command), command.clock);
}

std::optional<std::string> TeamProcess::Carry(const cluster::TrainingJob& job, TeamMutant mutant,
                                              const worker::DeviceCommand& command,
                                              worker::DeviceEvent* event) {
  const Clock of = RoundOf(job, command.clock);
  Clock& with = LoadedFor(job, command);
  const uint32_t team = TeamOf(job, command);
  if (std::holds_alternative<worker::LoadCommand>(command.what)) {
    if (mutant != TeamMutant::kEarlyLoad || with == kNoClock) with = of;
  } else if (std::holds_alternative<worker::ElasticCommand>(command.what)) {
    if (mutant != TeamMutant::kEarlyLoad) with = of + 1;
  } else if (std::holds_alternative<worker::UpdateLocally>(command.what)) {
    if (mutant != TeamMutant::kNoLocalStep) stepped = command.clock + 1;
  } else if (std::holds_alternative<worker::RunSection>(command.what)) {
    const bool local = job.specs.policy.keeps_parameters() && command.clock < job.total_clocks;
    if (local && stepped == kNoClock) stepped = command.clock;
    if (with == of && (!local || stepped == command.clock)) return std::nullopt;
    return absl::StrCat("B1: worker ", Index(rank), " computes clock ", command.clock,
                        " with the parameters of clock ", with);
  } else if (const auto* take = std::get_if<worker::TakeCommand>(&command.what)) {
    return CheckBlock(job, command, *take);
  } else if (const auto* give = std::get_if<worker::GiveBlock>(&command.what)) {
    const SeatOutline::Block& block = OutlineOf(job, command).outgoing[give->index];
    event->frames = {
        Buffer::CopyOf(BlockOf(holder(), team, command.clock, block.number, block.bytes))};
  } else if (const auto* collect = std::get_if<worker::CollectBucket>(&command.what)) {
    const ShardId shard = options->seat->shards[Index(collect->shard)];
    const server::CountedPart part = PartOf(holder(), team, of, shard, collect->bucket);
    event->frames = {Buffer::CopyOf(&part, sizeof(part))};
    event->samples = 1;
  }
  return std::nullopt;
}

std::optional<std::string> TeamProcess::CheckBlock(const cluster::TrainingJob& job,
                                                   const worker::DeviceCommand& command,
                                                   const worker::TakeCommand& take) const {
  const Clock clock = command.clock;
  const SeatOutline::Block& due = OutlineOf(job, command).incoming[take.index];
  const wire::TeamShape& shape = job.team->shape;
  const SeatHolder sender = {wire::WorkerAt(wire::TeamOf(rank, shape), due.seat, shape), admitted};
  const std::string content = BlockOf(sender, TeamOf(job, command), clock, due.number, due.bytes);
  if (due.number == take.number && take.block.size() == content.size() &&
      std::memcmp(take.block.data(), content.data(), content.size()) == 0) {
    return std::nullopt;
  }
  return absl::StrCat("B2: worker ", Index(rank), " takes at clock ", clock, " as block ",
                      take.number, " another clock's, or a former team's");
}

void TeamProcess::AddTo(Fingerprint* f) const {
  f->Add(rank);
  f->Add(engine.has_value());
  if (engine.has_value()) engine->AddTo(f);
  f->Add(commands.size());
  for (const worker::DeviceCommand& command : commands) {
    f->Add(command.run);
    f->Add(command.instruction);
  }
  for (const Clock clock : loaded) f->Add(clock);
  f->Add(stepped);
  for (const auto& [team, clock] : loaded_for) {
    f->Add(team);
    f->Add(clock);
  }
  f->Add(admitted);
  f->Add(heard);
  for (const bool flag : {let_in, started, leaving, crashed, noticed, out, gone}) f->Add(flag);
}

}  // namespace soapstone::sim
