#include "sim/team/team_mutant.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "cluster/actor_options.h"

namespace soapstone::sim {
namespace {

using worker::SeatOutline;

void TakeFirst(SeatOutline* outline) {
  const auto find = [&](SeatOutline::Step::Kind kind) {
    return std::find_if(outline->steps.begin(), outline->steps.end(),
                        [&](const SeatOutline::Step& step) { return step.kind == kind; });
  };
  const auto take = find(SeatOutline::Step::Kind::kTake);
  const auto give = find(SeatOutline::Step::Kind::kGive);
  if (give < take && take != outline->steps.end()) std::rotate(give, take, take + 1);
}

server::TeamFault FaultOf(TeamMutant mutant) {
  switch (mutant) {
    case TeamMutant::kFirstPush:
      return server::TeamFault::kFirstPush;
    case TeamMutant::kFirstPull:
      return server::TeamFault::kFirstPull;
    case TeamMutant::kAsTheyCome:
      return server::TeamFault::kAsTheyCome;
    case TeamMutant::kEachFresh:
      return server::TeamFault::kEachFresh;
    default:
      return server::TeamFault::kNone;
  }
}

}  // namespace

worker::EngineOptions EngineOptionsWith(TeamMutant mutant, const cluster::TrainingJob& job,
                                        WorkerId worker) {
  worker::EngineOptions options = cluster::EngineOptionsOf(job, worker);
  worker::SeatOptions seat = *options.seat;
  for (auto& of_size : seat.steps) {
    if (mutant == TeamMutant::kNoGrants) of_size.second.awaited.clear();
    if (mutant == TeamMutant::kOrdersWait && Index(worker) == 0) TakeFirst(&of_size.second);
  }
  if (mutant == TeamMutant::kNoGrants) seat.evaluation.awaited.clear();
  if (mutant == TeamMutant::kTooFar && seat.lead > 0) ++seat.lead;
  if (mutant == TeamMutant::kLeadForgottenBySeats) seat.own_lags.clear();
  options.seat = std::make_shared<const worker::SeatOptions>(std::move(seat));
  return options;
}

server::ShardOptions ShardOptionsWith(TeamMutant mutant, const cluster::TrainingJob& job,
                                      ShardId shard) {
  server::ShardOptions options = cluster::ShardOptionsOf(job, shard);
  options.team_fault = FaultOf(mutant);
  if (mutant == TeamMutant::kLeadForgotten) options.own_lag = 0;
  return options;
}

void Mutate(TeamMutant mutant, wire::Message* message) {
  const bool block = message->type == wire::MessageType::kBlock;
  const bool to_shard =
      message->to.role == wire::Role::kShard && message->from.role == wire::Role::kWorker;
  const bool loaded = message->type == wire::MessageType::kLoaded;
  if (mutant == TeamMutant::kTakenOverLate && loaded) ++message->clock;
  if (mutant == TeamMutant::kFormerBlock && block) message->epoch = kLastEpoch;
  if (mutant == TeamMutant::kFormerPush && to_shard) message->epoch = kLastEpoch;
}

}  // namespace soapstone::sim
