// Faults of a world of teams: TeamWorld's part (sim/team/team_world.h).
#include <algorithm>
#include <utility>

#include "sim/team/team_world.h"
#include "wire/membership/membership.h"
#include "wire/membership/teams.h"

namespace soapstone::sim {

using wire::Address;
using wire::Message;
using wire::MessageType;
using TeamKind = TeamWorld::Choice::Kind;

uint32_t TeamWorld::TeamOf(const TeamProcess& process) const {
  return Index(wire::TeamOf(process.rank, job_->team->shape));
}

// All of its seats were let in, and go on as far as the scheduler, or anybody, knows.
bool TeamWorld::GoesOn(uint32_t team, bool by_scheduler) const {
  const uint32_t seats = job_->team->shape.seats;
  for (uint32_t rank = team * seats; rank < (team + 1) * seats; ++rank) {
    const std::optional<uint32_t> holder = HolderOf(rank);
    if (!holder.has_value()) return false;
    const TeamProcess& process = processes_[*holder];
    if (!process.let_in || process.out) return false;
    if (!by_scheduler && (process.gone || process.leaving)) return false;
  }
  return true;
}

// What the job is to do where the scheduler learns that a team is lost.
bool TeamWorld::EndsWithout(uint32_t team) const {
  if (job_->team->plan.owned && team == 0) return true;
  const uint32_t teams = job_->team->shape.teams;
  uint32_t others = 0;
  for (uint32_t other = 0; other < teams; ++other) {
    if (other != team && GoesOn(other, /*by_scheduler=*/true)) ++others;
  }
  return others == 0 || (job_->specs.policy.takes_over() && teams - others > others);
}

bool TeamWorld::CanLose(uint32_t team) const {
  const auto phase = coordinator_->phase();
  if (phase != scheduler::Coordinator::Phase::kRunning &&
      phase != scheduler::Coordinator::Phase::kEvaluating) {
    return false;
  }
  if (may_end_) return true;
  if (EndsWithout(team)) return false;
  for (uint32_t other = 0; other < job_->team->shape.teams; ++other) {
    if (other != team && GoesOn(other, /*by_scheduler=*/false)) return true;
  }
  return false;
}

// Who had the rank is out, and nobody has asked for it since.
bool TeamWorld::CanJoin(uint32_t rank) const {
  const auto phase = coordinator_->phase();
  if (phase != scheduler::Coordinator::Phase::kRunning) return false;
  for (uint32_t i = 0; i < processes_.size(); ++i) {
    const TeamProcess& process = processes_[i];
    if (Index(process.rank) == rank && !process.gone && !process.engine.has_value()) return false;
  }
  const std::optional<uint32_t> holder = HolderOf(rank);
  return holder.has_value() && processes_[*holder].out;
}

void TeamWorld::AddFaults(std::vector<Choice>* choices) const {
  for (const auto& [ends, messages] : connections_.channels()) {
    const auto [from, to] = ends;
    const TeamProcess* sender = ProcessAt(from);
    const TeamProcess* receiver = ProcessAt(to);
    const bool arrives = receiver == nullptr || !receiver->gone;
    if (faults_.duplicates > 0 && from != kScheduler && to != kScheduler && arrives) {
      choices->push_back({TeamKind::kDuplicate, from, to});
    }
    if (faults_.cuts > 0 && sender != nullptr && sender->crashed && arrives) {
      choices->push_back({TeamKind::kCut, from, to});
    }
  }
  for (uint32_t team = 0; faults_.losses > 0 && team < job_->team->shape.teams; ++team) {
    if (GoesOn(team, /*by_scheduler=*/false) && CanLose(team)) {
      choices->push_back({TeamKind::kLose, team});
    }
  }
  for (uint32_t i = 0; i < processes_.size(); ++i) AddFaultsOf(i, choices);
  for (uint32_t rank = 0; faults_.joins > 0 && rank < job_->workers; ++rank) {
    if (CanJoin(rank)) choices->push_back({TeamKind::kJoin, rank});
  }
}

// Who is not let in yet nobody misses.
void TeamWorld::AddFaultsOf(uint32_t index, std::vector<Choice>* choices) const {
  const TeamProcess& process = processes_[index];
  if (process.gone || process.out || process.leaving || !process.engine.has_value()) return;
  if (process.let_in && !CanLose(TeamOf(process))) return;
  if (faults_.crashes > 0) choices->push_back({TeamKind::kCrash, index});
  if (faults_.leaves > 0) choices->push_back({TeamKind::kLeave, index});
  if (faults_.expulsions > 0) choices->push_back({TeamKind::kExpel, index});
}

void TeamWorld::CarryOutFault(const Choice& choice) {
  switch (choice.kind) {
    case TeamKind::kDuplicate:
      --faults_.duplicates;
      return Duplicate(choice.from, choice.to);
    case TeamKind::kLose:
      --faults_.losses;
      return LoseTeam(choice.from);
    case TeamKind::kCrash:
      --faults_.crashes;
      processes_[choice.from].crashed = true;
      return StopProcess(choice.from);
    case TeamKind::kCut:
      --faults_.cuts;
      return connections_.Cut({choice.from, choice.to});
    case TeamKind::kLeave:
      --faults_.leaves;
      return Leave(choice.from);
    case TeamKind::kExpel:
      --faults_.expulsions;
      return Expel(choice.from);
    default:
      AddProcess(choice.from);  // while what waits for a successor is kept still
      --faults_.joins;
      return;
  }
}

void TeamWorld::Duplicate(NodeIndex from, NodeIndex to) {
  Connections::Messages& messages = connections_.Change({from, to});
  Message copy = messages.front();
  if (mutant_ == TeamMutant::kBlockTwice && copy.type == MessageType::kBlock) ++copy.clock;
  messages.insert(messages.begin() + 1, std::move(copy));
}

// What its seats have sent arrives all the same, before the roster or behind it.
void TeamWorld::LoseTeam(uint32_t team) {
  const uint32_t seats = job_->team->shape.seats;
  for (uint32_t rank = team * seats; rank < (team + 1) * seats; ++rank) {
    processes_[*HolderOf(rank)].crashed = true;
    StopProcess(*HolderOf(rank));
  }
  for (uint32_t rank = team * seats; rank < (team + 1) * seats; ++rank) {
    TellLost(*HolderOf(rank));
  }
}

// What is missed was counted out already where another seat of its team was.
void TeamWorld::TellLost(uint32_t index) {
  TeamProcess& process = processes_[index];
  process.noticed = true;
  const Epoch heard = process.out ? process.heard : kLastEpoch;
  const bool counts = process.let_in && !process.out;
  const bool ends = counts && EndsWithout(TeamOf(process));
  if (!process.out) NoteLost(process);
  process.out = true;
  const Address node = Address::Of(process.rank);
  Schedule(ends, [&](scheduler::Coordinator* coordinator, wire::Outbox* out) {
    coordinator->OnLost(0, node, heard, out);
  });
}

void TeamWorld::NoteLost(const TeamProcess& process) {
  const bool ends = coordinator_->phase() == scheduler::Coordinator::Phase::kEvaluating;
  told_.newcomers_lost += process.let_in ? 0 : 1;
  told_.teams_lost += process.let_in ? 1 : 0;
  told_.lost_at_the_end += process.let_in && ends ? 1 : 0;
}

// As its shell does: with nothing in hand it goes at once.
void TeamWorld::Leave(uint32_t index) {
  TeamProcess& process = processes_[index];
  process.leaving = true;
  if (process.started && !process.engine->done()) return process.engine->RequestLeave();
  Message leave;
  leave.type = MessageType::kLeave;
  leave.from = Address::Of(process.rank);
  leave.to = Address::Scheduler();
  leave.epoch = process.heard;
  leave.body = wire::Progress{};
  Send(NodeOfProcess(index), {std::move(leave)});
  StopProcess(index);
}

// It learns of it when it speaks again, if nobody has its rank by then.
void TeamWorld::Expel(uint32_t index) {
  TellLost(index);
  const TeamProcess& process = processes_[index];
  Message heartbeat;
  heartbeat.type = MessageType::kHeartbeat;
  heartbeat.from = Address::Of(process.rank);
  heartbeat.to = Address::Scheduler();
  heartbeat.epoch = process.heard;
  heartbeat.body = wire::Progress{};
  Send(NodeOfProcess(index), {std::move(heartbeat)});
}

// Links to a rank whose former holder is gone lead to the new one: what blocks are under way come
// to it.
void TeamWorld::HandOn(uint32_t former, uint32_t process) {
  if (!processes_[former].gone) return;
  const NodeIndex from = NodeOfProcess(former), to = NodeOfProcess(process);
  std::vector<NodeIndex> senders;
  for (const auto& [ends, messages] : connections_.channels()) {
    if (ends.second == from) senders.push_back(ends.first);
  }
  for (const NodeIndex sender : senders) {
    const Connections::Messages messages = connections_.Change({sender, from});
    connections_.Cut({sender, from});
    for (const Message& message : messages) connections_.Send({sender, to}, message);
  }
}

}  // namespace soapstone::sim
