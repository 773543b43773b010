#include "cluster/team/team_options.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "models/graph/section.h"
#include "worker/device/seat_executor.h"

namespace soapstone::cluster {

const std::vector<uint32_t>& HoldersOf(const TeamJob& team, ShardId shard) {
  return team.plan.pieces.sets[Index(shard) % team.sets()];
}

Clock OwnLagOf(const TeamJob& team, ShardId shard) {
  uint32_t lead = team.plan.ReadsAhead() ? 1 : 0;
  for (const uint32_t seat : HoldersOf(team, shard)) lead = std::max(lead, team.plan.LeadOf(seat));
  return lead;
}

std::vector<ShardId> ShardsOf(const TeamJob& team, uint32_t seat, const wire::Layout& layout) {
  std::vector<ShardId> shards;
  for (uint32_t k = 0; k < layout.shard_count(); ++k) {
    if (layout.elements(ShardId{k}) == 0) continue;
    const std::vector<uint32_t>& holders = HoldersOf(team, ShardId{k});
    if (std::binary_search(holders.begin(), holders.end(), seat)) shards.push_back(ShardId{k});
  }
  return shards;
}

wire::Roster ReachedBy(const TeamJob* team, WorkerId worker, const wire::Roster& roster) {
  if (team == nullptr) return roster;
  return wire::Reached(roster, worker, team->shape, team->peers);
}

void AddGrants(const planner::TeamProgram& program, uint32_t seat, bool forward,
               worker::SeatOutline* outline) {
  std::set<std::pair<uint32_t, uint32_t>> pairs;
  for (const planner::BlockMessage& message : program.messages) {
    if (!forward || !message.backward) pairs.emplace(message.from, message.to);
  }
  auto number = static_cast<uint32_t>(program.messages.size());
  for (const auto& [from, to] : pairs) {
    if (pairs.contains({to, from})) continue;
    if (to == seat) outline->grants.push_back({.number = number, .seat = from});
    if (from == seat) outline->awaited.push_back({.number = number, .seat = to});
    ++number;
  }
}

worker::SeatOptions SeatOptionsOf(const TeamJob& team, uint32_t seat, const wire::Layout& whole,
                                  const wire::Layout& layout) {
  worker::SeatOptions options = {.team = team.shape,
                                 .shards = ShardsOf(team, seat, whole),
                                 .evaluation_batches = team.evaluation_batches,
                                 .lead = team.plan.LeadOf(seat),
                                 .reads_ahead = team.plan.ReadsAhead()};
  for (const uint32_t lead : team.plan.leads) {
    options.lead_max = std::max(options.lead_max, Clock{lead});
  }
  for (const ShardId shard : options.shards) options.own_lags.push_back(OwnLagOf(team, shard));
  for (const auto& [samples, program] : team.plan.steps) {
    worker::SeatOutline outline = worker::OutlineOf(program.seats[seat].section, layout);
    AddGrants(program, seat, /*forward=*/false, &outline);
    options.steps[static_cast<uint64_t>(samples)] = std::move(outline);
  }
  const planner::TeamProgram& evaluated =
      team.plan.steps.at(static_cast<int64_t>(team.evaluation_batch));
  options.evaluation =
      worker::OutlineOf(models::ForwardHalf(evaluated.seats[seat].section), layout);
  AddGrants(evaluated, seat, /*forward=*/true, &options.evaluation);
  return options;
}

}  // namespace soapstone::cluster
