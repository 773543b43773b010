// What the seats of a team are told of a strategy: TeamJob is what a job has of it, and from that
// come a worker's engine and device, and the holders of a shard. Called where actors are made
// (actor_options.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/ids.h"
#include "strategy/team_plan.h"
#include "wire/layout.h"
#include "wire/membership/teams.h"
#include "worker/engine_options.h"

namespace soapstone::cluster {

// A job whose model is split over its workers. The layout's parameters are the plan's pieces, and
// server j has shard j · sets + h of holder set h.
struct TeamJob {
  wire::TeamShape shape;
  planner::TeamPlan plan;
  uint64_t evaluation_batch = 1;    // samples; one of the plan's
  uint64_t evaluation_batches = 0;  // of the held-out samples
  bool peers = false;               // those that have one seat exchange among themselves

  uint32_t sets() const { return static_cast<uint32_t>(plan.pieces.sets.size()); }
  // Server k is in the process of worker k, which is seat k of team 0.
  bool KeepsParameters(int64_t worker) const { return plan.owned && worker < shape.seats; }
};

// The seats that hold a shard's parameters, ascending.
const std::vector<uint32_t>& HoldersOf(const TeamJob& team, ShardId shard);
// The most clocks by which one of them reads ahead of what it has pushed (strategy/window.h).
Clock OwnLagOf(const TeamJob& team, ShardId shard);
// The shards that a seat holds, ascending; none of those without parameters.
std::vector<ShardId> ShardsOf(const TeamJob& team, uint32_t seat, const wire::Layout& layout);

// The roster, of a team with those workers alone that it has a word for (wire::Reached). team: null
// where there is none.
wire::Roster ReachedBy(const TeamJob* team, WorkerId worker, const wire::Roster& roster);

// Who must hear of whom at each clock (SeatOutline::grants, awaited): for each seat that sends to
// another and gets nothing of it, one word back. forward: of the messages of forward halves alone.
void AddGrants(const planner::TeamProgram& program, uint32_t seat, bool forward,
               worker::SeatOutline* outline);

// `layout`: of the seat's shards alone.
worker::SeatOptions SeatOptionsOf(const TeamJob& team, uint32_t seat, const wire::Layout& whole,
                                  const wire::Layout& layout);

}  // namespace soapstone::cluster
